"""Reports, traces, tables and figures of result folders. They are made from files alone, without a lab."""
