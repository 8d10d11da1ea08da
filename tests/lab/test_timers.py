"""Retransmission timers of RoCE: those that are too short for the network are named."""

from __future__ import annotations

from xoff import Duration, Flow, Flows, Incast, Roce, Run, experiment, network


@experiment(timeout="100s")
def test_timers_that_end_without_a_loss_are_warned_of(run: Run) -> None:
    """A round trip takes 200 us; the same flow with a timer below it, and with the default."""
    from testbed.roce.settings import Settings

    with network(Incast(1, delay="50us")) as net:
        for settings, warnings in ((Settings(retransmit_after=Duration("50us"), retries=254), 1), (Settings(), 0)):
            flow = Flow(net["h1"], net["r"], transport=Roce(settings=settings), size="100kB")
            with Flows([flow]) as running:
                running.wait()
            said = Roce.remarks([(flow, running.reports[0])])
            run.claim(f"warnings with {settings.retransmit_after}", len(said), equals=warnings)
            for text in said:
                run.claim("the warning", "and 0 frames were lost in the network (h1 to r)" in text, equals=True)
