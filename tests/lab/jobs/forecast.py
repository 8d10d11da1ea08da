"""A run of known work, for the forecast of what runs take."""

from testbed.lab import Run, experiment


@experiment(timeout="300s")
def incast(run: Run, transport: str = "udp") -> None:
    """Flows from two hosts to one, which are stopped by pauses."""
    from testbed.net import traffic
    from testbed.units import Size
    from xoff import Incast, network

    frames = {"udp": 8000, "roce": 5000}[transport]
    with network(Incast(2)):
        flows = [
            traffic.Flow(host, "r", count=frames)
            if transport == "udp"
            else traffic.Flow(host, "r", transport="roce", size=Size.from_bytes(1024 * frames))
            for host in ("h1", "h2")
        ]
        with run.measuring(), traffic.Flows(flows) as running:  # in a measured part nothing else is told of the flows
            running.wait()
    reports = running.reports
    run.claim("lost", running.lost, equals=0)
    ends, begins = (one.last_lab_ns for one in reports), (one.first_lab_ns for one in reports)
    run.figure("flows took", (max(ends) - min(begins)) / 1e9)
