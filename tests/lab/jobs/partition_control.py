"""An SR policy controller over several kernels, as scripts meet it."""

from typing import Any

from xoff import Run, SrController, Srv6Wan, XoffError, experiment, network, ping, wan_state


@experiment(timeout="120s", partitions=2)
def asked(run: Run) -> None:
    """The script is in each part, and ends as an error if it finds another figure in one of them."""
    with SrController() as controller:
        run.claim("asked before the network", _refused(controller.ask, "GET", "/topology"), equals="PartitionError")
        topo = Srv6Wan(wan="1km", controller=controller)
        with network(topo) as net:
            run.claim("a second controller", _refused(SrController), equals="PartitionError")
            controller.request(*topo.intents())
            controller.wait(controller.settled, "every policy and tunnel is installed")
            run.figure("its log", controller.log())
            rules = [net[leaf].dpctl("dump-flows").count("cookie=0x786f66") for leaf in ("s1", "s2")]
            run.claim("rules of either leaf", min(rules), at_least=1)
            too_long = _refused(controller.wait, lambda: False, "pigs fly", seconds=0.5)
            run.claim("a wait that is too long", too_long, equals="ControllerFailed")
            run.claim("a request that is none", _refused(controller.ask, "POST", "/vpns", {}), equals="UsageError")
            controller.kill()
            run.claim("no answer", _refused(controller.ask, "GET", "/topology"), equals="ControllerError")
            controller.wait(lambda: not any(_sessions(net)), "routers of all parts miss their controller")
            controller.start()
            controller.wait(lambda: all(_sessions(net)), "routers of all parts have it again")
            controller.wait(controller.settled, "all is as it was")
            ping(net["a1"], net["b1"])


def _refused(what: Any, *arguments: Any, **named: Any) -> str:
    try:
        what(*arguments, **named)
    except XoffError as error:
        return type(error).__name__
    return ""


def _sessions(net: Any) -> list[bool]:
    """Report whether each router has a session with the controller."""
    return [wan_state(net.fabric, router)["controller"]["connected"] for router in ("r1", "r2", "r3")]


@experiment(timeout="60s")
def killed(run: Run) -> None:
    """A controller that dies, and a script that does not expect it."""
    with SrController() as controller, network(Srv6Wan(wan="1km", controller=controller)):
        controller.kill()
        controller.settled()


@experiment(timeout="60s")
def absent(run: Run) -> None:
    """A controller that does not start."""
    with SrController("none") as controller, network(Srv6Wan(wan="1km", controller=controller)):
        pass
