"""Results for other programs: traces, tables, figures, captures."""
