"""One test of the benchmark for training fabrics; `xoff benchmark` runs them all."""

from collections.abc import Callable
from typing import Annotated

from experiments._benchmark import balancing, collectives, congestion, jobs, link_layer, scale, transport
from testbed.lab.studies.benchmark import TESTS
from testbed.measures.fabric_under_test import FabricUnderTest
from xoff import File, OneOf, Run, experiment

_BODIES: dict[str, Callable[[Run, FabricUnderTest, bool], None]] = {
    "throughput": transport.throughput,
    "latency": transport.latency,
    "burst": transport.burst,
    "retry": link_layer.retry,
    "trimming": link_layer.trimming,
    "credits": link_layer.credits,
    "ecn": congestion.ecn,
    "incast": congestion.incast,
    "dcqcn": congestion.dcqcn,
    "storm": congestion.storm,
    "ecmp": balancing.ecmp,
    "flowlet": balancing.flowlet,
    "spray": balancing.spray,
    "all-reduce": collectives.all_reduce,
    "all-to-all": collectives.all_to_all,
    "all-gather": collectives.all_gather,
    "jct": jobs.jct,
    "training": jobs.training,
    "tenants": jobs.tenants,
    "scale": scale.scale,
    "failure": jobs.failure,
    "soak": scale.soak,
}


@experiment(timeout="3600s", free_cpu=True)
def benchmark(
    run: Run,
    files: tuple[File, ...] | None = None,
    *,
    test: Annotated[str, OneOf(*(one.name for one in TESTS))] = "incast",
    topo: str = "leaf-spine,4,4,4",
    control: str = "dcqcn",
    pfc: bool = True,
    ecn: str = "auto",
    recovery: str = "go-back-N",
    quick: bool = True,
) -> None:
    """A test of the benchmark for AI training fabrics on one fabric."""
    paths = [file.path for file in files or ()]
    fabric = FabricUnderTest.of(topo, paths, control=control, pfc=pfc, ecn=ecn, recovery=recovery)
    _BODIES[test](run, fabric, quick)
