"""Results that others have published, made anew: `xoff verify --published` runs them and shows both values.

How to add one
--------------
A file holds an experiment of its own, as any other. What it measures goes beside the published value:

    run.published(
        "goodput of go-back-0", goodput,
        value=Rate("0b/s"), within=0,
        source="Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016, 4.1",
        differs="lines of 10 Gb/s in place of 40 Gb/s",
    )

- What is measured is never computed from the published value, so that it can differ.
- Nothing is tuned until it fits. What does not come out as published has no `within`: both values are shown, and
  `differs` says why they are not the same, as far as that is known.
- A tolerance comes from what differs, and is written down before the run.
- Each claim fails if the mechanism is switched off: a control case in the same experiment shows that.
- `docs/published.md` has a section for each, with the source.
"""
