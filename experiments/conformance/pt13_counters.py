"""PT13: counters of trimming of queues, ports and the switch."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import FRAMES, SIZE, Trimmed, trimmed, trims, without_trimming

QUEUE = "first queue: trimmed, sent and dropped as rests"
_REST_CLASS = 6


@case(ports=3, tables=trims, timeout="300s", control=Control("the action drop", without_trimming, fails=[QUEUE]))
def pt13_counters(bench: Bench) -> None:
    """Each counter of queues, ports and the switch is exact, over two queues, two ports, and a full queue of rests."""
    with trimmed(bench) as on:
        one, other = on.lossy[0], on.lossy[-1]
        start = _counts(on, one)
        on.congest("h3", one)
        filled = _counts(on, one)
        rests = int(on.queue_counters("h3", _REST_CLASS)["totalbytes"])
        on.send(on.frame("h3", one))
        first = _since(_counts(on, one), filled)
        octets = int(on.queue_counters("h3", _REST_CLASS)["totalbytes"]) - rests
        on.congest("h3", other)
        filled = _counts(on, other)
        on.send(on.frame("h3", other))
        second = _since(_counts(on, other), filled)
        on.congest("h2", one)
        filled = _counts(on, one, "h2")
        on.send(on.frame("h2", one))
        third = _since(_counts(on, one, "h2"), filled)
        on.block("h2", on.queue(_REST_CLASS))
        on.fill("h2", _REST_CLASS)
        room = 0
        while not bench.is_control and on.port_counters("h2")[2] == 0 and room < FRAMES:
            on.send(on.frame("h2", one), 1)  # what is left for short frames in a queue that has no room for long ones
            room += 1
        filled = _counts(on, one, "h2")
        on.send(on.frame("h2", one))
        last = _since(_counts(on, one, "h2"), filled)
        on.block("h2", on.queue(_REST_CLASS), False)
        for host, priority in (("h3", one), ("h3", other), ("h2", one)):
            on.relieve(host, priority)
        end = _counts(on, one)
        total = on.switch_counters()
        ports = [on.port_counters(host) for host in ("h1", "h2", "h3")]
    sent = {"queue": [FRAMES, FRAMES, 0], "port": [FRAMES, FRAMES, 0], "switch": [FRAMES, 0], "drops": FRAMES}
    bench.claim(QUEUE, first["queue"], equals=[FRAMES, FRAMES, 0])
    bench.claim("first queue: queue, port and switch", first, equals=sent)
    bench.claim("octets of its rests", octets, equals=FRAMES * SIZE)
    bench.claim("second queue of the port", second, equals=sent)
    bench.claim("a queue of another port", third, equals=sent)
    bench.claim("with the queue of rests full", last, equals={
        "queue": [FRAMES, 0, FRAMES], "port": [FRAMES, 0, FRAMES], "switch": [0, FRAMES], "drops": FRAMES})  # fmt: skip
    bench.claim("the sum of ports is the switch's", [sum(port[1] for port in ports), sum(port[2] for port in ports)],
                equals=total)  # fmt: skip
    bench.claim("counters at the beginning", start["switch"], equals=[0, 0])
    bench.figure("trimmed, sent and dropped of the first queue in all", end["queue"])


def _counts(on: Trimmed, priority: int, host: str = "h3") -> dict[str, list[int] | int]:
    row = on.queue_counters(host, priority)
    return {
        "queue": [int(row[name]) for name in ("trimpacket", "trimsentpacket", "trimdroppacket")],
        "port": on.port_counters(host),
        "switch": on.switch_counters(),
        "drops": int(row["droppacket"]),
    }


def _since(now: dict[str, list[int] | int], before: dict[str, list[int] | int]) -> dict[str, list[int] | int]:
    found: dict[str, list[int] | int] = {}
    for name, value in now.items():
        then = before[name]
        if isinstance(value, list) and isinstance(then, list):
            found[name] = [one - other for one, other in zip(value, then, strict=True)]
        elif isinstance(value, int) and isinstance(then, int):
            found[name] = value - then
    return found
