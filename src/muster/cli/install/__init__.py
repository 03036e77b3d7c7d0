"""What `muster manifests` and the Helm chart put into a cluster.

`rights` says what each part may do, `parts` how it is run, `objects` makes the Kubernetes objects of both.
"""

from muster.cli.install.objects import ACCOUNTS, Settings, installation
from muster.cli.install.parts import PARTS, Part

__all__ = ["ACCOUNTS", "PARTS", "Part", "Settings", "installation"]
