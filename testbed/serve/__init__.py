"""The live view: a server on this machine that shows a running lab, and replays results, in browsers."""
