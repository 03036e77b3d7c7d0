"""The reasons of all Events that muster records. docs/reference/events.md is written from this list."""

from __future__ import annotations

from enum import StrEnum


class EventReason(StrEnum):
    """The reason of an Event, with the objects that get it, the parts that record it, and its message."""

    objects: str
    part: str
    about: str

    def __new__(cls, value: str, objects: str, part: str, about: str) -> EventReason:
        member = str.__new__(cls, value)
        member._value_ = value
        member.objects, member.part, member.about = objects, part, about
        return member

    SCHEDULED = (
        "Scheduled", "Pod, PodGroup", "scheduler",
        "The pod is bound: `Successfully assigned POD to NODE`. Pods of one gang get one Event on their PodGroup with "
        "up to five names. A PodGroup whose minimum is placed gets `pod group is ready`.",
    )  # fmt: skip
    FAILED_SCHEDULING = (
        "FailedScheduling", "Pod, PodGroup", "scheduler",
        "The pod has no node: `0/N nodes are available: …` with the number of nodes for each reason.",
    )  # fmt: skip
    UNSCHEDULABLE = (
        "Unschedulable", "PodGroup", "scheduler",
        "The minimum of the PodGroup cannot be placed. The message is that of the condition of the same name.",
    )  # fmt: skip
    FAILED_BINDING = (
        "FailedBinding", "Pod", "scheduler",
        "The API server refused the binding, or the volumes were not ready in time. The scheduler tries again.",
    )  # fmt: skip
    EVICT = (
        "Evict", "Pod, PodGroup", "scheduler",
        "The pods were evicted: `evicted by ACTION to make room for POD`, or `evicted because its gang could not be "
        "completed`. A pod of another namespace is not named.",
    )  # fmt: skip
    EVICTING = (
        "Evicting", "Pod, PodGroup", "scheduler",
        "Other pods are evicted for this one: `ACTION evicts N pods: …`.",
    )  # fmt: skip
    EVICTION_REFUSED = (
        "EvictionRefused", "Pod, PodGroup", "scheduler",
        "The API server refused an eviction, for example because of a PodDisruptionBudget. The victim and the pods "
        "that wait for its resources get the answer as message.",
    )  # fmt: skip
    CONFIGURATION_USED = (
        "ConfigurationUsed", "ConfigMap, else the scheduler's Pod", "scheduler",
        "A changed configuration is in use: `version HASH is used`, with its warnings.",
    )  # fmt: skip
    CONFIGURATION_REFUSED = (
        "ConfigurationRefused", "ConfigMap, else the scheduler's Pod", "scheduler",
        "A changed configuration is invalid: the mistakes, and `version HASH stays in use`.",
    )  # fmt: skip
    BAD_CONFIGURATION = (
        "BadConfiguration", "ConfigMap", "all parts that read workload kinds",
        "Descriptions of workload kinds in a ConfigMap are invalid; the valid ones are in use.",
    )  # fmt: skip
    BOUND = (
        "Bound", "applications", "controllers",
        "The application follows a policy: `bound to PropagationPolicy NAME`.",
    )  # fmt: skip
    POLICY_NOT_FOUND = ("PolicyNotFound", "applications", "controllers", "The policy in a label does not exist.")
    POLICY_INVALID = ("PolicyInvalid", "applications", "controllers", "The policy in a label is not valid.")
    POLICY_WARNING = (
        "PolicyWarning", "PropagationPolicy, OverridePolicy", "controllers",
        "A part of the policy has no effect, or not the effect that one would expect.",
    )  # fmt: skip
    GROUP_UNKNOWN = (
        "GroupUnknown", "PropagationPolicy, OverridePolicy", "controllers",
        "The policy names a node group that does not exist.",
    )  # fmt: skip
    GROUP_EMPTY = (
        "GroupEmpty", "PropagationPolicy, OverridePolicy", "controllers",
        "The policy names a node group without nodes.",
    )  # fmt: skip
    GROUP_NAME_CASE = (
        "GroupNameCase", "PropagationPolicy, OverridePolicy", "controllers",
        "The policy writes the name of a node group in other letters; the group of that name is used.",
    )  # fmt: skip
    SATISFIED = (
        "Satisfied", "PropagationPolicy, OverridePolicy", "controllers",
        "All applications of the policy are as desired: `N applications are as desired`.",
    )  # fmt: skip
    EVICTED = (
        "Evicted", "applications", "controllers",
        "A pod was evicted because of a policy: `evicted pod POD from node NODE, …` with the reason.",
    )  # fmt: skip
    EVICTION_BLOCKED = (
        "EvictionBlocked", "applications", "controllers",
        "A pod should be evicted and cannot be: `pod POD: …` with the reason, for example a PodDisruptionBudget.",
    )  # fmt: skip
    WRONG_GROUP = (
        "WrongGroup", "applications, PropagationPolicy", "controllers",
        "The replacement of an evicted pod is in the wrong node group. The controllers stop evicting, because no part "
        "that follows the policies places the pods.",
    )  # fmt: skip
    EDITION = ("Edition", "Pod", "controllers", "A running pod has another edition: `changed CONTAINER to IMAGE`.")
    FAILED_CREATE = (
        "FailedCreate", "workloads", "embedded cluster of the simulator",
        "The pods of a workload cannot be created from its template.",
    )  # fmt: skip
    BAD_ANNOTATION = (
        "BadAnnotation", "Pod", "embedded cluster of the simulator",
        "The annotation `muster.io/run-seconds` is not a number of seconds; the pod runs on.",
    )  # fmt: skip
