"""DCBX over LLDP on one port, sans-I/O: frames and `now` in; frames, events and the next deadline out.

    settings         what an administrator decides: features, willingness, tie-break, timers
    machines         the draft's state machines, as equations: informational, symmetric, asymmetric, defense
    negotiation      settings and the peer's TLVs to the state of every feature; pure
    flap_guard       two willing ports that follow each other, and how they converge
    damping          how often a port accepts changes from its link
    events           what changed, for the agent to apply to its port
    transmit         when LLDP sends (802.1AB 9.2): interval, fast start, credit, reinitialisation
    neighbours       the neighbours that LLDP receives from, and until when
    port             `DcbxPort`, which puts them together
    config           the configuration file
    config_warnings  legal settings that are probably unintended
    show             the state as plain data, as a table, and as the lines of a log; `value_text` formats values
    ladder           a log of two ports as a ladder diagram: `ladder_text` and `ladder_svg` draw it, `log_text` words it

Nothing here opens a socket, reads a clock or depends on a kind of switch. Times are the lab's: every timer of the
standard is multiplied by the scale, and the TTL in a frame is in the standard's seconds.
"""
