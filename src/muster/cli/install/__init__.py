"""What `muster manifests` and the Helm chart put into a cluster.

`rights` says what each part may do, `parts` how it is run, `placement` where, `objects` makes the Kubernetes objects.
"""

from muster.cli.install.objects import Settings, default_queue, installation
from muster.cli.install.parts import PARTS, Part

__all__ = ["PARTS", "Part", "Settings", "default_queue", "installation"]
