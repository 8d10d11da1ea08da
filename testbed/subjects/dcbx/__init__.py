"""DCBX over LLDP on one port, sans-I/O: frames and `now` in; frames, events and the next deadline out.

    features         what DCBX negotiates, one class for each feature: its TLV, settings, negotiation, event and words
    settings         what an administrator decides: features, willingness, tie-break, timers
    tlvs             the TLVs of a frame, read and written in one of the two formats
    machines         the draft's state machines, as equations: informational, symmetric, asymmetric, defense
    negotiation      settings and the peer's TLVs to the state of every feature, and warnings; pure
    flap_guard       two willing ports that follow each other, and how they converge
    damping          how often a port accepts changes from its link
    events           what changed, for the agent to apply to its port
    transmit         when LLDP sends (802.1AB 9.2): interval, fast start, credit, reinitialisation
    neighbours       the neighbours that LLDP receives from, and when they expire
    port             `DcbxPort`, which puts them together
    config           the configuration file; `config_values` has what several features write in it
    show             the state as plain data, as a table, and as the lines of a log; `log_text` has a log in words
    ladder           a log of two ports as a ladder diagram, as text and as SVG

Nothing here opens a socket, reads a clock or depends on a kind of switch. Times are the lab's: every timer of the
standard is multiplied by the scale, and the TTL in a frame is in the standard's seconds.
"""
