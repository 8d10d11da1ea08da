"""The processes of hosts whose flows the kernel of the engine `um` serves: they hand the flows over, and report."""
