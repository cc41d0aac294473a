"""Descriptions: from docstrings of every style, from Annotated, from Field."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from loopctl.tools import ToolContext, tool

GOOGLE = """Search the index.

        It is updated hourly.

        Args:
            query: What to look for,
                in plain words.

                Note: no operators.
            limit (int, optional): How many
                at most.
            ctx: The engine's.

        Returns:
            The hits.

        Raises:
            ValueError: limit: below 1.
        """
NUMPY = """Search the index.

        It is updated hourly.

        Parameters
        ----------
        query : str
            What to look for,
            in plain words.

            Note: no operators.
        limit : int, optional
            How many
            at most.

        Raises
        ------
        ValueError
            limit below 1.

        Returns
        -------
        str
            The hits.
        """
SPHINX = """Search the index.

        It is updated hourly.

        :param query: What to look for,
            in plain words.

            Note: no operators.
        :type query: str
        :param int limit: How many
            at most.
        :raises ValueError: limit: below 1.
        :returns: The hits.
        """
RETURNS = {
    "google": "Returns:\n    The hits.",
    "numpy": "Returns\n-------\nstr\n    The hits.",
    "sphinx": ":returns: The hits.",
}


@pytest.mark.parametrize(("style", "text"), [("google", GOOGLE), ("numpy", NUMPY), ("sphinx", SPHINX)])
def test_each_docstring_style_gives_the_same_descriptions(style, text):
    def search(query: str, ctx: ToolContext, limit: int = 5): ...

    search.__doc__ = text
    made = tool(search)
    properties = made.parameters["properties"]
    assert properties["query"]["description"] == "What to look for, in plain words. Note: no operators."
    assert properties["limit"]["description"] == "How many at most."
    assert made.description == f"Search the index.\n\nIt is updated hourly.\n\n{RETURNS[style]}"


@pytest.mark.parametrize(
    ("text", "description", "parameters"),
    [
        (None, "", {}),
        ("", "", {}),
        ("One line.", "One line.", {}),
        ("\n    Args:\n        a: Only.\n    ", "", {"a": "Only."}),
        ("Do.\n\nArgs:\n    a, b: Both.\n", "Do.", {"a": "Both.", "b": "Both."}),
        ("Do.\n\nParameters\n----------\na, b : int\n    Both.", "Do.", {"a": "Both.", "b": "Both."}),
        ("Do.\n\nArgs:\n    a: One.\n\nMore.", "Do.\n\nMore.", {"a": "One."}),
        ("Do.\nArgs:\n    a: One.\n\nMore.", "Do.\n\nMore.", {"a": "One."}),
        ("Do.\nArgs:\n  a: One.\n  b: Two.", "Do.", {"a": "One.", "b": "Two."}),
        ("Do.\n\nArgs:\n    a (dict[str, (int)]): One.", "Do.", {"a": "One."}),
        ("Do.\n\nArgs:\n    a:\n        Below.", "Do.", {"a": "Below."}),
        ("Do.\n\nArgs:\n    a: One\n    c: not a parameter", "Do.", {"a": "One c: not a parameter"}),
        ("Do.\n\nArguments:\n    a: One.\n\nKeyword Args:\n    b: Two.", "Do.", {"a": "One.", "b": "Two."}),
        ("Do.\n\n  Args:\n      a: is text\nEnd.", "Do.\n\n  Args:\n      a: is text\nEnd.", {}),
        ("Do.\n\nExample:\n    a: is text", "Do.\n\nExample:\n    a: is text", {}),
        ("Do.\n\n:param a: One.\n:param b: Two.\n:rtype: int", "Do.", {"a": "One.", "b": "Two."}),
        ("Do.\n\n:arg str a: One.\n\nMore: text.", "Do.\n\nMore: text.", {"a": "One."}),
        ("Args matter: yes.\nArgs: on this line", "Args matter: yes.\nArgs: on this line", {}),
    ],
)
def test_docstrings_at_the_edges(text, description, parameters):
    def f(a: int, b: int = 0): ...

    f.__doc__ = text
    made = tool(f)
    said = {
        name: shown["description"] for name, shown in made.parameters["properties"].items() if "description" in shown
    }
    assert (made.description, said) == (description, parameters)


def test_what_stands_at_the_parameter_goes_before_the_docstring():
    @tool
    def f(
        a: Annotated[int, Field(description="From Field.", ge=1)],
        b: Annotated[int, "From text."],
        c: Annotated[int, Field(ge=1)],
        d: Annotated[int, "From text.", Field(description="From Field.")],
    ):
        """Do.

        Args:
            a: From docs.
            b: From docs.
            c: From docs.
        """

    said = {name: shown["description"] for name, shown in f.parameters["properties"].items()}
    assert said == {"a": "From Field.", "b": "From text.", "c": "From docs.", "d": "From Field."}
    assert [f.parameters["properties"][name].get("minimum") for name in "abc"] == [1, None, 1]


def test_the_description_of_a_parameter_goes_before_that_of_its_type():
    class Size(BaseModel):
        """How large."""

        width: int

    @tool
    def f(a: Size, b: Size):
        """Do.

        Args:
            a: Of the window.
        """

    properties = f.parameters["properties"]
    assert properties["a"]["description"] == "Of the window."
    assert properties["b"]["description"] == "How large."


def test_a_description_given_as_an_option_replaces_the_docstring_and_leaves_the_parameters():
    @tool(description="Say it so.")
    def f(a: int):
        """Do.

        Args:
            a: One.
        """

    assert f.description == "Say it so."
    assert f.parameters["properties"]["a"]["description"] == "One."
    assert tool(f.__wrapped__, description="").description == ""
