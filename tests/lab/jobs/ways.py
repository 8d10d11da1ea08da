"""Jobs that follow frames along equally short ways."""

from testbed.lab import Run, experiment


@experiment
def spines(run: Run) -> None:
    """Send ten frames to each host of the far leaf, and record how many each spine forwarded."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.leaf_spine import LeafSpine

    with network(LeafSpine(2, 2, 2, ways="host number"), autoStaticArp=True) as net:
        found = {}
        for target in ("h3", "h4"):
            ports = [net.fabric.between(f"spine{number}", "leaf2").name for number in (1, 2)]
            before = [net.fabric.sent(port).sent_frames[3] for port in ports]
            with Flows([Flow("h1", target, count=10)]) as flows:
                flows.wait()
            found[target] = [
                net.fabric.sent(port).sent_frames[3] - so_far for port, so_far in zip(ports, before, strict=True)
            ]
        run.figure("frames by spine", found)


@experiment
def too_large(run: Run, hosts: int = 1500) -> None:
    """Build more nodes than the job may have processes."""
    from testbed.errors import UsageError
    from testbed.net.build.network import network
    from topologies.star import Star

    try:
        with network(Star(n=hosts)):
            said = "it runs"
    except UsageError as error:
        said = str(error)
    run.figure("said", said)
