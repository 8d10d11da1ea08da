"""Networks whose switches are set up by SONiC's tables."""
