"""Somebody else's mutating webhook, called after muster's: it gives every pod a sidecar."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from live.api import Api
from live.certificates import Authority

_HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_NAME = "zz-sidecar"  # webhooks are called in the order of their names


class SecondWebhook:
    """Use with `with`; `asked` counts its calls."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.asked = 0
        self._api = api
        self._folder = tempfile.TemporaryDirectory(prefix="muster-sidecar-")
        authority = Authority(Path(self._folder.name))
        certificate, key = authority.server("sidecar")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked += 1
                sidecar = {"name": "sidecar", "image": "sidecar:1"}
                patch = [{"op": "add", "path": "/spec/containers/-", "value": sidecar}]
                answer = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch"}
                answer["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
                body = json.dumps({**review, "response": answer, "request": None}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        trusted = base64.b64encode(authority.certificate.read_bytes()).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        self._configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": _NAME},
            "webhooks": [{
                "name": "sidecar.example.io", "rules": [rule], "sideEffects": "None", "failurePolicy": "Fail",
                "admissionReviewVersions": ["v1"], "reinvocationPolicy": "Never",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "clientConfig": {"url": f"https://127.0.0.1:{self._server.server_port}/", "caBundle": trusted},
            }],
        }  # fmt: skip

    def __enter__(self) -> SecondWebhook:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._api.call("POST", _HOOKS, self._configuration)
        # The API server hears of webhooks by a watch.
        threading.Event().wait(1.5)
        return self

    def __exit__(self, *_: object) -> None:
        self._api.delete(f"{_HOOKS}/{_NAME}")
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()
