"""Descriptions of workload kinds: how the pods of an operator's kind are found, what makes a gang, and where its pod
templates are."""

# KAI's annotation, then Volcano's: a number on the owner counts for more than its description.
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
MIN_MEMBER_ANNOTATIONS = ("kai.scheduler/batch-min-member", MIN_MEMBER)
