"""A result as a widget of a notebook, whose slider Python moves and reads. It takes the package anywidget."""

from __future__ import annotations

from typing import Any

from testbed.errors import UsageError
from testbed.lab.results.result import Result
from testbed.report.notebook import cell
from testbed.report.pages.markup import asset, readable


def widget(result: Result) -> Any:
    """Return a result as a widget for a notebook: its networks with the slider, and its panels.

    Its trait `t_ns` is the time of the slider in nanoseconds since the run began, as in `result.events`: set it, and
    the drawing shows that time; `observe` it, and a function is called when a reader moves the slider. `words` says
    what held then. A result at the end of a cell shows the same page without any of this, and that is what a saved
    notebook keeps.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise UsageError(
            "a widget takes the Python package anywidget: pip install 'xoff[notebook]'. A result at the end of a cell "
            "shows itself without it"
        ) from None

    class ReportWidget(anywidget.AnyWidget):
        """The page of a result, and the time of its slider."""

        _esm = str(asset("testbed.report", "widget.js"))
        page = traitlets.Unicode().tag(sync=True)
        title = traitlets.Unicode().tag(sync=True)
        t_ns = traitlets.Int(None, allow_none=True).tag(sync=True)
        words = traitlets.Unicode().tag(sync=True)

    folder, content = cell.page_of(result)
    return ReportWidget(page=content, title=readable(f"{folder.result['experiment']}: its networks over time"))
