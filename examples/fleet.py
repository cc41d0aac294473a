"""A fleet of runs under one signal: a deploy begins, all of them stop at once, and each says what it had done.

Run it: `python examples/fleet.py`. The model plays a script and needs no key; put "local" or "openai:…" in its place.
"""

import asyncio

import loopctl
from loopctl import Agent, CancelReason, CancelSignal, ToolContext
from loopctl.testing import ScriptedModel, call, say


async def crawl(site: str, ctx: ToolContext) -> str:
    """Crawl a site.

    Args:
        site: Its name.
    """
    for page in range(1000):
        ctx.progress(f"{site}: page {page}", page / 1000)
        await ctx.sleep(0.01)
    return f"{site} has 1000 pages"


async def main() -> None:
    """Start twenty runs, stop them all, and count what had happened."""
    deploy = CancelSignal()
    agents = [Agent(ScriptedModel([say("On it."), call("crawl", {"site": f"site {n}"})]), [crawl]) for n in range(20)]
    handles = [agent.session().start("Crawl it.", signal=deploy) for agent in agents]

    await asyncio.sleep(0.2)
    deploy.cancel(CancelReason("shutdown", "version 2.0 is coming", requested_by="deploy"))
    runs = [await handle for handle in handles]

    assert {run.outcome for run in runs} == {"cancelled"}
    assert {record.status for run in runs for record in run.tool_calls} == {"interrupted"}
    slowest = max(run.stop.latency for run in runs if run.stop is not None)
    print(f"{len(runs)} runs stopped, the slowest after {slowest * 1000:.1f} ms: {deploy.reason}")


if __name__ == "__main__":
    loopctl.run(main())
