"""A page is fetched within its limits, from where it may be fetched, and left at once when the call is stopped."""

import asyncio

import pytest

from loopctl import Agent, ToolError
from loopctl.builtin import builtin_tools
from loopctl.builtin._addresses import is_public
from loopctl.builtin._fetch import Fetching
from loopctl.record import CallStatus
from loopctl.testing import ScriptedModel, call

PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"]
PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:127.0.0.1",
    "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:53aa:64c:0:0:80ff:fffe", "no address",
]  # fmt: skip


class Site:
    """Answers each path with bytes, on loopback; notes what it was asked, and when its client left."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []
        self.left = asyncio.Event()

    async def __aenter__(self):
        self._tasks = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error):
        self._server.close()
        await self._server.wait_closed()
        await asyncio.gather(*self._tasks)

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            answer = self.answers[head.split()[1].strip("/").replace("/", "_")]
            writer.write(answer.replace("PORT", str(self.port)).encode())
            await writer.drain()
            if "never" not in answer:
                writer.write_eof()
            while await reader.read(1000):
                pass
        except ConnectionError:
            pass
        finally:
            self.left.set()
            writer.close()


def page(body, kind="text/plain", status="200 OK", **headers):
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body.encode())}\r\n\r\n{body}"


def to(location):
    return page("", status="302 Found", Location=location)


def fetch(path, *, host="site.test", **answers):
    """Fetch *path* of a site; gives the text, the heads it was asked with, and the hosts that were resolved."""
    hosts = []

    async def resolver(name, port):
        hosts.append(name)
        return ["127.0.0.1"]

    async def main():
        async with Site(**answers) as site:
            fetching = Fetching(private_addresses=True, resolver=resolver)
            text = await fetching.fetch_url(f"http://{host}:{site.port}/{path}")
            await site.left.wait()
        return text, site.asked, hosts

    return asyncio.run(main())


def test_a_page_comes_as_text_and_the_server_is_asked_by_its_name():
    text, (head,), hosts = fetch("a?b=1", **{"a?b=1": page("Grüße", "text/html; charset=utf-8")})
    assert text == "Grüße"
    assert head.startswith("GET /a?b=1 HTTP/1.1\r\n")
    assert "host: site.test:" in head.lower()
    assert hosts == ["site.test"]


def test_each_redirect_is_resolved_and_checked_anew_and_may_be_relative():
    text, heads, hosts = fetch("a", a=to("/b"), b=to("http://other.test:PORT/c"), c=page("there"))
    assert text == "there"
    assert [head.split()[1] for head in heads] == ["/a", "/b", "/c"]
    assert hosts == ["site.test", "site.test", "other.test"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (to("/a"), "more than 5 times"),
        (to("file:///etc/passwd"), "is no address of the web"),
        (page("", "image/png"), "is image/png: fetch_url gives text only"),
        (page("no such page", status="404 Not Found"), "answered 404 Not Found: no such page"),
        ("nonsense\r\n\r\n", "could not be fetched"),
    ],
)
def test_what_cannot_be_given_says_why(answer, said):
    with pytest.raises(ToolError, match=said):
        fetch("a", a=answer)


def test_what_is_read_and_given_is_bounded():
    text, _, _ = fetch("a", a=page("x" * 3_000_000))
    assert len(text) < 51_000
    assert text.endswith("[… only the first 2,000,000 bytes were read …]")


@pytest.mark.parametrize("url", ["", "site.test", "ftp://site.test/a", "file:///etc/passwd", "http://", "http://[::1"])
def test_only_addresses_of_the_web_are_fetched(url):
    with pytest.raises(ToolError):
        asyncio.run(Fetching().fetch_url(url))


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_no_public_ones(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f000001", "127.1"])
def test_this_machine_is_not_asked(host):
    """However its address is written: what counts is where it leads."""

    async def main():
        async with Site(a=page("inside")) as site:
            with pytest.raises(ToolError, match=r"no public address|no host"):
                await Fetching().fetch_url(f"http://{host}:{site.port}/a")
            assert site.asked == []

    asyncio.run(main())


def test_a_name_that_is_half_inside_is_refused():
    async def resolver(name, port):
        return ["93.184.215.14", "10.0.0.1"]

    with pytest.raises(ToolError, match=r"leads to 10\.0\.0\.1, which is no public address"):
        asyncio.run(Fetching(resolver=resolver).fetch_url("http://site.test/"))


@pytest.mark.parametrize("begun", ["never", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nnever ends"])
def test_a_stop_closes_the_connection_at_once(begun, tmp_path):
    async def yes(call, ctx):
        return True

    async def main():
        async with Site(a=begun) as site:
            (tool,) = builtin_tools(tmp_path, ["fetch_url"], private_addresses=True)
            model = ScriptedModel(call("fetch_url", {"url": f"http://127.0.0.1:{site.port}/a"}), "never said")
            async with Agent(model, [tool], approve=yes).session().start("go") as handle:
                while not site.asked:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)  # the head is there, too
                handle.cancel("enough")
                run = await handle
            await asyncio.wait_for(site.left.wait(), 10)
        return run

    run = asyncio.run(main())
    assert run.outcome == "cancelled"
    assert [record.status for record in run.tool_calls] == [CallStatus.INTERRUPTED]
    assert run.stragglers == ()
