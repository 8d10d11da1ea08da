"""DCBX over LLDP on one port, sans-I/O: frames and `now` in; frames, events and the next deadline out.

    settings     what an administrator decides: features, willingness, tie-break, timers
    machines     the draft's state machines, as equations: informational, symmetric, asymmetric, defense
    negotiation  settings and the peer's TLVs to the state of every feature; pure
    doubts       two willing ports that follow each other, and how they come to rest
    events       what an agent is told, and has to apply to its port
    transmit     when LLDP sends (802.1AB 9.2): interval, fast start, credit, reinitialisation
    neighbours   whom LLDP hears, and for how long
    port         `DcbxPort`, which puts them together
    show, words  all that as plain data, as a table, and as the lines of a log
    ladder       a log of two ports as a ladder diagram; `ladder_text` and `ladder_svg` draw it, `sayings` has the words

Nothing here opens a socket, reads a clock or knows what a switch is. Times are the lab's: every timer of the standard
is multiplied by the scale, and the TTL in a frame is in the standard's seconds.
"""
