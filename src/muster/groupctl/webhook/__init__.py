"""Admission: pods get their node group and its edition when they are created, and what could never work is refused.

`wire` is the API server's question and answer, `seats` says how many pods of a unit each group has, `mutation` turns a
pod into its group's pod (as the JSON patch of `patch`), `validator` validates, `ungating` lets pods go that waited for
their policies, `registration` makes the webhooks known with the authority to trust, `service` runs it all.
"""
