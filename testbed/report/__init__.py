"""What is made of result folders: a report, traces, tables and figures. It reads files and needs no lab."""
