"""What `muster manifests` and the Helm chart put into a cluster.

`rights` has what each part may do, `parts` how and where it runs, `admission` the webhook configurations and what the
controllers' account may write, `objects` makes the Kubernetes objects.
"""

from muster.cli.install.objects import ACCOUNTS, Settings, default_queue, installation
from muster.cli.install.parts import PARTS, Part

__all__ = ["ACCOUNTS", "PARTS", "Part", "Settings", "default_queue", "installation"]
