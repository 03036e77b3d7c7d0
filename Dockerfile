# The image that `muster manifests` runs: every part is a verb of the one command. It runs as any user, needs no shell and
# writes nothing but to /tmp.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /build
COPY deploy/versions.py pyproject.toml uv.lock README.md LICENSE ./
COPY src src
RUN python versions.py uv.lock > versions.txt
RUN python -m venv /opt/muster
RUN /opt/muster/bin/pip install --no-cache-dir --constraint versions.txt '.[live]'

FROM python:${PYTHON}-slim
COPY --from=build /opt/muster /opt/muster
ENV PATH=/opt/muster/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080
ENTRYPOINT ["muster"]
CMD ["--help"]
