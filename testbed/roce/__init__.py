"""RoCEv2 as hosts speak it: reliable connections, congestion notification, rate controls. Sans-I/O."""
