"""The cases of SONiC's public PFC test plans, one file each, named as there. `xoff switch conformance` runs them.

How to write a case
-------------------
A file `l01_storm.py` (or `watchdog_timer.py`, where a plan has no numbers) holds one function of the same name:

    @case(timeout="60s", control=Control("no PFC at the switch", without_pfc, fails=["received on 3 in the storm"]))
    def l01_storm(bench: Bench) -> None:
        "A storm on one priority stops that one, and no other."
        with bench.network(hosts=2) as net, RawPort(net["h2"], "h2-eth0") as wire:
            ...
            bench.claim("received on 3 in the storm", received, equals=0)

- The part of the name before `_` is the number in the plan if it looks like one (L01, Y04); else the whole name is what
  `--case` takes, as in WATCHDOG-TIMER.
- The function runs twice: on the switch, and on the same switch with the mechanism off, which is the control. Claims
  of the first run are claims of the experiment. Each claim that `fails` names must not hold in the control.
- `Control.change` makes the control's tables of config_db.json from those of the case: `without_pfc`,
  `without_headroom`, `without_watchdog`, or a function of your own. Where the mechanism is not the switch's, leave it
  out and read `bench.is_control` in the case.
- `tables=` of `case` changes the tables before both runs: other weights, WRED thresholds, watchdog times. It must cope
  with the tables of a switch of the user's; what it changes is no longer tested of that switch, so change little.
- `ports=3` is for a case with three hosts; two are usual. Where a class of the user's ports has fewer, it is left out.
- Times and rates are those of the hardware. A time that is meant for a line of 100 Gb/s goes through `bench.paced`, so
  that it is shorter on a faster one. `bench.measured` makes hardware's time of nanoseconds by the lab's clock.
- `watchdog_scale=1` makes the watchdog's times in the lab those of the file, in place of a thousand times as long: the
  hardware's watchdog is that much quicker. What is claimed about it is in the file's time (`_watchdog.by_file`).
- The first claim is the one that the matrix shows.

The argument of a case is a `Bench` (`_case.py`).
"""
