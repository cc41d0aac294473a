"""What the help of the commands says."""

from __future__ import annotations

__all__ = [
    "ACP",
    "CANCEL",
    "CANCEL_NOTES",
    "CHAT",
    "CHECK",
    "CHECK_NOTES",
    "CODES",
    "EFFECTS",
    "MCP",
    "MODELS",
    "PS",
    "RUN",
    "RUNS",
    "SERVE",
    "SESSIONS",
    "STORE",
]

MODELS = """\
models:
  local                 a small model on this machine, no key needed (extra: local)
  local:/path/m.gguf    any model that llama.cpp runs
  openai:NAME           OpenAI, with OPENAI_API_KEY
  ollama:NAME           Ollama on this machine, or at OLLAMA_HOST
  NAME                  with --base-url: what that server calls it

Without --model: openai:gpt-5.2 if OPENAI_API_KEY is set, else local."""

CHAT = """\
Talk to a model. Ctrl-C stops a reply and brings the prompt back; pressed again,
it waits for nothing more; a third time, it leaves. Ctrl-D at the prompt leaves.
/help lists the rest."""

RUN = """\
Run once: the reply goes to stdout, everything else to stderr. Ctrl-C stops it."""

SERVE = """\
Serve a page for chats with the agent, and the HTTP API under it, until Ctrl-C or SIGTERM:
then what runs is stopped, and said so. On this machine only, unless there is a token."""

ACP = """\
Be an agent in an editor, by the Agent Client Protocol on stdin and stdout: the editor
starts this command, asks you before calls that need a yes, and stops what runs."""

EFFECTS = """\
Show the effects in a store that were begun and never recorded as done, or say what
became of one. ctx.once in a tool raises EffectUnknown for them until then."""

PS = """\
Show the runs that go on in your processes on this machine: those of loopctl, and of every
program that listens (loopctl.control.listen)."""

CANCEL = """\
Stop runs, in whatever of your processes on this machine they are, and say what that did.
The beginning of an id is enough, if no other run has it. loopctl ps lists them."""

CANCEL_NOTES = """\
exit codes, of several runs the largest:
  0 stopped, and ended      1 told to stop, not ended yet      2 called wrongly
  3 had ended before        4 no such run"""

RUNS = """\
Show the newest runs in a store, also while they run, and how they ended: a run whose
process died is interrupted. `loopctl runs show ID` tells all of one; the beginning of
its id is enough."""

SESSIONS = """\
Show the sessions in a store, those that were used last first. Go on with one by
loopctl chat --session NAME."""

STORE = """\
Without --store: $XDG_STATE_HOME/loopctl/store.db (~/.local/state), which is also where
loopctl chat --session NAME keeps its sessions."""

CHECK = """\
Find out whether a tool is safe to abandon: it is run once as a whole, then stopped at
each of its awaits and killed at each of its lines, each time in a fresh folder and in
a process of its own. Told is what that leaves half-done or open, with the line."""

CHECK_NOTES = """\
exit codes:
  0 safe to abandon      1 something was found      2 it cannot be checked

Paths in the input should be relative: only the fresh folder is looked at. Reach no real
service: the tool runs dozens of times."""

MCP = """\
Serve tools and agents to clients of the Model Context Protocol: to the one on stdin
and stdout, or over HTTP. A client's cancel stops the call. Ctrl-C and SIGTERM end the
server."""

CODES = """\
exit codes:
  0 completed      1 failed, or out of turns      2 called wrongly
  124 deadline     130 stopped by Ctrl-C or by another     143 stopped by SIGTERM"""
