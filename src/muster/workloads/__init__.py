"""Descriptions of workload kinds: how the pods of an operator's kind are found, what makes a gang, and where its pod
templates are."""

# KAI's annotation, then Volcano's: a number on the owner counts for more than its description.
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
MIN_MEMBER_ANNOTATIONS = ("kai.scheduler/batch-min-member", MIN_MEMBER)

# Codes of findings that `validate` makes errors: of an unknown kind no pod is simulated, and a fault may change a gang.
UNDESCRIBED, FAULT_OF_OBJECT = "undescribed-kind", "workload-kind"
