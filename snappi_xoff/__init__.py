"""snappi's extension for Xoff: `snappi.api(ext="xoff")`. Only the lab can use it; see docs/snappi.md."""
