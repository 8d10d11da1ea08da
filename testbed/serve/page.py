"""The pages of the live view beside reports: the running lab, and the index.

They have the style, the drawing of the network and the panels of a report (`testbed/report/assets`); the script beside
those is `live.js`. As in a report, a content security policy admits style and script by their digests.
"""

from __future__ import annotations

from pathlib import Path

from testbed.report.pages import topology
from testbed.report.pages.markup import asset, digest, heading, script_json, text
from testbed.report.timeline.tracks import natural
from testbed.serve.feed import Feed

_SHARED = ("data.js", "draw.js", "network.js")
_SPEEDS = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10", "100")
_MANY_HOSTS, _MANY_NODES = 8, 30
_SPANS = ("1", "3", "10", "30", "60")
_BODY = """
<header class="top"><h1>{title}</h1>
<p><span class="clock" id="clock" aria-label="The network's time">0 s</span>
<span id="connection" role="status">connecting</span></p></header>
<main>
<p id="problem" role="alert" hidden></p>
<noscript><p>The live view takes scripts, and this browser runs none.</p></noscript>
<div class="controls" role="group" aria-label="Time">
<button id="pause" type="button" aria-pressed="false">Pause</button>
<button id="step" type="button">Step 100 ms</button>
<label>Speed <select id="speed">{speeds}</select></label>
<label class="slide">Time shown <input id="back" type="range" min="0" max="0" value="0" step="1000000"></label>
<button id="follow" type="button" aria-pressed="true">Now</button>
<label>Window <select id="span">{spans}</select></label>
<a id="save" href="/session.py" download="session.py">Save the session</a>
</div>
<div class="stage{wide}">
<section aria-label="Network" class="drawing"><div id="drawing">{drawing}</div>
<div id="here" role="dialog" aria-labelledby="here-what" hidden><p id="here-what"></p><div id="here-do"></div></div>
<p class="note">At this time: <span id="state"></span></p>
<p class="note" id="legend"><span class="key"><svg viewBox="0 0 14 10" aria-hidden="true"><rect class="k-paused"
width="14" height="10"/></svg>paused</span> <span class="key"><svg viewBox="0 0 14 10" aria-hidden="true"><rect
class="k-xoff" width="14" height="10"/></svg>sends XOFF</span> <span class="key">A cable's half has the load that its
end sends: the wider and darker, the more. A dotted cable is pulled. A bar in a switch is the use of its shared pool.
Click a cable, a port or a node: what can be done there is beside it.</span></p>
</section>
<section aria-label="Controls" class="levers">
<form id="traffic"><fieldset><legend>Traffic</legend>
<label class="many">From <select name="source" multiple size="{size}">{hosts}</select></label>
{sets}
<label>to <select name="target">{targets}</select></label>
<label>priority <select name="priority">{priorities}</select></label>
<label>rate <input name="rate" size="8" placeholder="line rate" maxlength="30"></label>
<label>by <select name="transport"><option>udp</option><option>roce</option></select></label>
<label><input name="ecn" type="checkbox"> ECN-capable</label>
<button type="submit">Start</button> <button type="button" id="stop">Stop all</button>
</fieldset></form>
<ul id="flows" aria-label="Flows"></ul>
<fieldset><legend>Port</legend>
<label>Port <select id="port">{ports}</select></label>
<div role="group" aria-label="PFC by priority"><span class="what">PFC</span> <span id="pfc"></span></div>
<div role="group" aria-label="ECN by priority"><span class="what">ECN</span> <span id="ecn"></span></div>
<p class="fields"><label>Kmin <input id="kmin" size="6" value="20kB" maxlength="30"></label>
<label>Kmax <input id="kmax" size="6" value="80kB" maxlength="30"></label>
<label>Pmax <input id="pmax" size="5" value="20%" maxlength="30"></label></p>
<div role="group" aria-label="Storm by priority"><span class="what">Storm</span> <span id="storm"></span></div>
<div role="group" aria-label="Cable"><span class="what">Cable</span> <button type="button" id="cable">Pull</button>
<label>delay <input id="delay" size="7" maxlength="30"></label>
<button type="button" id="set-delay">Set</button></div>
</fieldset>
<fieldset><legend>Buffer</legend>
<label>Switch <select id="switch">{switches}</select></label>
<label>XOFF above <input id="xoff" size="7" maxlength="30"></label>
<button type="button" id="set-xoff" aria-label="Set the threshold">Set</button>
<span class="note">cells, or a part of the free ones as in 50%</span>
</fieldset>
<fieldset><legend>Agent</legend>
<label>Node <select id="node">{nodes}</select></label>
<button type="button" id="kill">Kill its agent</button>
<button type="button" id="kill-speaker">Kill its speaker</button>
<span id="pids" class="note"></span>
</fieldset>
<p id="answer" role="status"></p>
</section>
</div>
<div id="panels"></div>
<details id="further" hidden><summary>Further panels <span class="about" id="further-about"></span></summary>
<div id="more"></div></details>
<h2>Actions</h2>
<p><button type="button" id="undo" disabled>Undo</button> <span id="undo-what" class="note"></span></p>
<ol id="actions" class="log" tabindex="0" aria-label="Actions"></ol>
<p class="note">What was done, on the axes of the panels too. Save the session makes an experiment of it:
./xoff run session.py does the same at the same times.</p>
<h2>Protocols</h2>
<div class="wide" tabindex="0" role="region" aria-label="Protocols">
<table><thead><tr><th scope="col">what</th><th scope="col">at this time</th></tr></thead>
<tbody id="states"></tbody></table>
<p class="note" id="no-states">No protocol has anything to show.</p></div>
<h2>Log</h2>
<ol id="words" class="log" tabindex="0" aria-label="Log"></ol>
{links}
</main>
"""


def live(title: str, feed: Feed, host: str, has_results: bool) -> tuple[str, str]:
    """Return the page of a running lab, and its content security policy. `host` is the host of the request."""
    network = feed.network
    hosts = feed.hosts or [name for name, kind in network.nodes.items() if kind == "host"]
    ports, nodes = list(network.ports), [name for name in network.nodes if name in _with_ports(feed)]
    body = _BODY.format(
        title=text(title, 80),
        drawing=topology.drawing(network, "topology"),
        hosts=_options(hosts, hosts[0] if hosts else ""),
        size=max(2, min(5, len(hosts))),
        sets=_sets(feed, hosts),
        wide=" wide-stage" if len(network.nodes) > _MANY_NODES else "",
        targets=_options(hosts, hosts[-1] if hosts else ""),
        priorities=_options([str(number) for number in range(8)], "3"),
        ports=_options(ports),
        switches=_options([name for name in nodes if name in network.buffers]),
        nodes=_options(nodes),
        speeds=_options(_SPEEDS, "1", {value: f"{value} x" for value in _SPEEDS} | {"100": "as fast as it can"}),
        spans=_options(_SPANS, "3", {value: f"{value} s" for value in _SPANS}),
        links='<p><a href="/">Results to replay</a></p>' if has_results else "",
    )
    data = script_json({"drawing": "topology"})
    return _document(f"{title} - live", f'{body}<script type="application/json" id="data">{data}</script>', host)


def _sets(feed: Feed, hosts: list[str]) -> str:
    """Return a choice of many hosts at once, by the switch that they are at, where there are many."""
    if len(hosts) <= _MANY_HOSTS:
        return ""
    beside: dict[str, list[str]] = {}
    for cable in feed.network.cables:
        for host, other in (cable["nodes"], cable["nodes"][::-1]):
            if host in hosts and other not in hosts:
                beside.setdefault(other, []).append(host)
    choices = {"": "choose hosts", " ".join(hosts): "all hosts"}
    choices |= {" ".join(beside[name]): f"hosts of {name}" for name in sorted(beside, key=natural)}
    return f'<label>or <select id="sets">{_options(list(choices), "", choices)}</select></label>'


def index(results: list[Path], topology_name: str | None) -> str:
    """Return the page that lists the lab and the results."""
    rows = [f'<li><a href="/lab">{text(topology_name, 80)}</a>, a running lab</li>'] if topology_name else []
    rows += [f'<li><a href="/result/{n}">{text(path.resolve().name)}</a></li>' for n, path in enumerate(results, 1)]
    if len(results) > 1:
        rows.append('<li><a href="/results">All results side by side</a></li>')
    body = f"<header>{heading(1, 'Xoff')}</header><main><ul>{''.join(rows)}</ul></main>"
    return _document("Xoff", body, "", with_script=False)[0]


def _with_ports(feed: Feed) -> set[str]:
    return {feed.network.node_of(port) for port in feed.network.ports}


def _options(values: list[str] | tuple[str, ...], chosen: str = "", words: dict[str, str] | None = None) -> str:
    return "".join(
        f'<option value="{text(value)}"{" selected" if value == chosen else ""}>{text((words or {}).get(value, value))}'
        "</option>"
        for value in values
    )


def _document(title: str, body: str, host: str, with_script: bool = True) -> tuple[str, str]:
    style = asset("testbed.report", "report.css") + asset("testbed.serve", "live.css")
    parts = [*(asset("testbed.report", name) for name in _SHARED), asset("testbed.serve", "live.js")]
    script = "(() => {\n'use strict';\n" + "\n".join(parts) + "\n})();" if with_script else ""
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data:; "
        f"connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    source = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{text(title, 100)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f"{f'<script>{script}</script>' if script else ''}\n</body>\n</html>\n"
    )
    return source, policy
