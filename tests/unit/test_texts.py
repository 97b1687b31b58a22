"""Labels and manifests: what is plain is read exactly, and what is not is refused with its line and column."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from swerve.config import limits
from swerve.core.errors import UnreadableCase
from swerve.sources import strict
from swerve.sources.root import Root
from swerve.sources.strict import ParseError
from swerve.sources.texts import csv_file, json_file, number, xml_file, yaml_file

ROWS = "name,angle\n"


def put(folder: Path, text: str | bytes) -> Root:
    (folder / "f").write_bytes(text if isinstance(text, bytes) else text.encode())
    return Root(folder)


def said(reader: Any, folder: Path, text: str | bytes, **options: Any) -> str:
    """What is said of a text that is refused."""
    with pytest.raises(UnreadableCase) as error:
        reader(put(folder, text), "f", **options)
    return str(error.value)


# JSON

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN, st.booleans())
def test_json_gives_back_what_was_written(data: Any, escaped: bool) -> None:
    try:
        text = json.dumps(data, ensure_ascii=escaped)
        text.encode()
    except UnicodeEncodeError:
        return
    assert strict.parse_json(text) == data


@pytest.mark.parametrize("levels", [1, limits.DEPTH])
def test_json_may_be_nested(tmp_path: Path, levels: int) -> None:
    found = json_file(put(tmp_path, "[" * levels + "]" * levels), "f")
    for _ in range(levels - 1):
        (found,) = found
    assert found == []


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('{"a": 1,\n "b": {"a": 2},\n "a": 3}', "line 3, column 2", "duplicate key 'a'"),
        ('{"a": 1, "\\u0061": 3}', "line 1, column 10", "duplicate key"),
        ("[1,\n  NaN]", "line 2, column 3", "NaN is not valid JSON"),
        ("[Infinity]", "line 1, column 2", "Infinity is not valid JSON"),
        ("[1, -Infinity]", "line 1, column 5", "-Infinity is not valid JSON"),
        ("[1e400]", "line 1, column 2", "1e400 is too large"),
        ('["NaN", 1, -1e999]', "line 1, column 12", "-1e999 is too large"),
        ('{"x":\n"\\ud800"}', "line 2, column 1", "an incomplete character"),
        ('["\\ud83d\\ude00", "\\ude00\\ud83d"]', "line 1, column 18", "an incomplete character"),
        ("[" * (limits.DEPTH + 1) + "]" * (limits.DEPTH + 1), "line 1, column 101", "more than 100 levels"),
        ("[" * 100_000, "line 1, column 101", "more than 100 levels"),
        ('{"a":' * 100_000, "line 1, column 501", "more than 100 levels"),
        ("[" + "9" * 5000 + "]", "line 1, column 2", "thousands of digits"),
        ("[1 2]", "line 1, column 4", "Expecting"),
        ("{'a': 1}", "line 1, column 2", "Expecting"),
        ("[1]\n[2]", "line 2, column 1", "Extra data"),
        ("[1,]", "line 1, column", "Expecting"),
        ('["\x01"]', "line 1, column 3", "control character"),
        ("", "line 1, column 1", "Expecting"),
        (b"[1,\n\xff]", "line 2, column 1", "not UTF-8"),
        ("[\0]", "line 1, column 2", "NUL"),
    ],
)
def test_json_faults_have_a_place(tmp_path: Path, text: str | bytes, where: str, words: str) -> None:
    message = said(json_file, tmp_path, text)
    assert message.startswith(f"f, {where}")
    assert words in message


def test_json_with_a_mark_and_a_pair() -> None:
    assert strict.parse_json('["\\ud83d\\ude00"]') == ["😀"]


def test_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert json_file(put(tmp_path, b"\xef\xbb\xbf[1]"), "f") == [1]
    assert yaml_file(put(tmp_path, b"\xef\xbb\xbfa: 1"), "f") == {"a": 1}
    assert csv_file(put(tmp_path, b"\xef\xbb\xbfa\r\n1\r\n"), "f", columns=["a"]) == [{"a": "1"}]


def test_number_of_parts_is_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("strict", "texts"):
        monkeypatch.setattr(f"swerve.sources.{module}.PARTS", 5)
    assert json_file(put(tmp_path, "[[],[],[],[]]"), "f") == [[], [], [], []]
    assert "more than 5 lists" in said(json_file, tmp_path, "[[],[],[],[],[]]")
    assert "more than 5 parts" in said(yaml_file, tmp_path, "[1, 2, 3, 4, 5, 6]")
    assert "more than 5 elements" in said(xml_file, tmp_path, "<a><b/><b/><b/><b/><b/></a>")


# YAML


class Writer(yaml.SafeDumper):
    """Quotes the words that YAML 1.2 takes for numbers, and YAML 1.1, which PyYAML writes, does not: 0E0, 0o7."""


for kind, pattern in (("int", strict.INT), ("float", strict.FLOAT)):
    Writer.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern.pattern})$"), list("-+.0123456789"))


@given(PLAIN)
@example({"0E0": None})
@example(["0o7", "1e5", "-.5E1"])
def test_yaml_gives_back_what_was_written(data: Any) -> None:
    try:
        text = yaml.dump(data, Dumper=Writer)
        text.encode()
    except (UnicodeEncodeError, yaml.YAMLError):
        return
    assert strict.parse_yaml(text) == data


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("~", None), ("null", None), ("", None), ("true", True), ("False", False)),
        *(("7", 7), ("-3", -3), ("007", 7), ("0x1F", 31), ("0o17", 15), ("1.5", 1.5), (".5", 0.5), ("-1e-3", -0.001)),
        *(("off", "off"), ("no", "no"), ("yes", "yes"), ("2014-01-01", "2014-01-01"), ("1:30", "1:30"), ("1_0", "1_0")),
        *(("'7'", "7"), ('"true"', "true"), ("./a.png", "./a.png"), ("0x", "0x"), ("1e", "1e")),
    ],
)
def test_words_are_those_of_yaml_1_2(word: str, value: Any) -> None:
    found = strict.parse_yaml(f"key: {word}")["key"]
    assert found == value
    assert type(found) is type(value)


def test_yaml_that_is_empty() -> None:
    assert strict.parse_yaml("") is None
    assert strict.parse_yaml("# nothing\n") is None


def test_a_few_aliases_are_fine() -> None:
    assert strict.parse_yaml("a: &x [1, 2]\nb: *x\nc: &y word\nd: *y") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": "word",
        "d": "word",
    }


def flood(levels: int) -> str:
    """Nine times nine times nine words, and so on."""
    rows = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, levels)]
    return "\n".join(["l0: &l0 [x, x, x, x, x, x, x, x, x]", *rows])


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1", "duplicate key 'a'"),
        ("- {x: 1, x: 2}", "line 1, column 10", "duplicate key"),
        (
            "a: !!python/object/apply:os.system ['x']",
            "line 1, column 4",
            "the tag tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("!!python/name:os.system", "line 1, column 1", "only plain data"),
        ("a: !!str 4", "line 1, column 4", "only plain data"),
        ("a: !mine {b: 1}", "line 1, column 4", "only plain data"),
        ("! a", "line 1, column 1", "only plain data"),
        (flood(10), "line 7, column", "counting every use of an alias"),
        ("&a [*a]", "line 1, column 5", "*a refers to nothing"),
        ("a: *b", "line 1, column 4", "*b refers to nothing"),
        ("a: .inf", "line 1, column 4", "not a finite number"),
        ("a: -.INF", "line 1, column 4", "not a finite number"),
        ("a: .NaN", "line 1, column 4", "not a finite number"),
        ("a: 1e999", "line 1, column 4", "not a finite number"),
        ("<<: {a: 1}", "line 1, column 1", "merge keys"),
        ("? [a]\n: b", "line 1, column 5", "a key must be"),
        ("a: 1\n---\nb: 2", "line 2, column 1", "a second document"),
        ("[" * 10_000, "line 1, column 101", "more than 100 levels"),
        ("- " * 10_000, "line 1, column 201", "more than 100 levels"),
        ("{a: " * 10_000, "line 1, column 401", "more than 100 levels"),
        ("a: [1, 2\nb: 3", "line 2, column 2", "expected"),
        ("a: b: c", "line 1, column 5", "mapping values"),
        ("a: 'open", "line 1, column 9", "end of stream"),
        ("\t- a", "line 1, column 1", "cannot start"),
        ("a: \x07", "line 1, column 4", "control characters"),
        (b"a: \xe9", "line 1, column 4", "not UTF-8"),
    ],
)
def test_yaml_faults_have_a_place(tmp_path: Path, text: str | bytes, where: str, words: str) -> None:
    message = said(yaml_file, tmp_path, text)
    assert message.startswith(f"f, {where}")
    assert words in message


@pytest.mark.parametrize("text", ["a: 1\na: 2", "[" * 500, "a: !!str 1", "a: 'x"])
def test_yaml_without_libyaml_says_the_same_kind_of_thing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(ParseError) as fast:
        strict.parse_yaml(text)
    monkeypatch.setattr(strict, "LOADER", yaml.SafeLoader)
    with pytest.raises(ParseError) as slow:
        strict.parse_yaml(text)
    assert slow.value.line == fast.value.line


# CSV


@pytest.mark.parametrize(
    "text",
    [
        "name,angle\na,1\nb,2\n",
        "name,angle\r\na,1\r\nb,2\r\n",
        "name, angle\na, 1\n\nb, 2",
        '"name",angle\n"a","1"\nb,2',
        "name,angle\ra,1\rb,2",
    ],
)
def test_csv_rows(tmp_path: Path, text: str) -> None:
    expected = [{"name": "a", "angle": "1"}, {"name": "b", "angle": "2"}]
    assert csv_file(put(tmp_path, text), "f", columns=["name"]) == expected


def test_csv_newline_in_quotes(tmp_path: Path) -> None:
    rows = csv_file(put(tmp_path, ROWS + '"a\nb","say ""x"""\n'), "f", columns=[])
    assert rows == [{"name": "a\nb", "angle": 'say "x"'}]


def test_csv_with_another_separator(tmp_path: Path) -> None:
    assert csv_file(put(tmp_path, "a;b\n1,5;2"), "f", columns=["a", "b"], separator=";") == [{"a": "1,5", "b": "2"}]


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("name;angle\na;1", "line 1, column 5", 'the columns are separated by ";"; set separator = ";"'),
        ("name\tangle\na\t1", "line 1, column 5", 'the columns are separated by "\\t"; set separator = "\\t"'),
        ("nam,angle\na,1", "line 1, column 1", "no column 'name'; did you mean 'nam'?"),
        ("x,y\n1,2", "line 1, column 1", "no column 'name'; known: x, y"),
        (ROWS + "a,1\nb\n", "line 3, column 1", "1 cells, but the header 2 columns"),
        (ROWS + "a,1,2\n", "line 2, column 1", "3 cells, but the header 2 columns"),
        (ROWS + '"a\nb",1\nc,1,2\n', "line 4, column 1", "3 cells"),
        (ROWS + '"a,1\n', "line 2, column 1", "unexpected end"),
        (ROWS + '"a"b,1\n', "line 2, column 1", "expected after"),
        (ROWS + "a," + "x" * 200_000, "line 2, column 1", "field larger"),
        (ROWS + "a\0,1", "line 2, column 2", "a NUL character"),
        ("name,name\n1,2", "line 1, column 1", "two columns have the name 'name'"),
        ("", "line 1, column 1", "name the columns"),
        ("\n\n", "line 1, column 1", "name the columns"),
        (b"name\n\xff", "line 2, column 1", "not UTF-8"),
    ],
)
def test_csv_faults_have_a_place(tmp_path: Path, text: str | bytes, where: str, words: str) -> None:
    message = said(csv_file, tmp_path, text, columns=["name"])
    assert message.startswith(f"f, {where}")
    assert words in message


def test_row_limit_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROWS", 3)
    assert len(csv_file(put(tmp_path, ROWS + "a,1\n" * 3), "f", columns=[])) == 3
    assert "line 5, column 1: the table has more than 3 rows" in said(csv_file, tmp_path, ROWS + "a,1\n" * 4, columns=[])


@pytest.mark.parametrize("reader", [json_file, yaml_file, xml_file])
def test_size_limit_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Any) -> None:
    text = "<a>1</a>" if reader is xml_file else '["12345"]'
    monkeypatch.setattr(limits, "MANIFEST", len(text))
    reader(put(tmp_path, text), "f")
    monkeypatch.setattr(limits, "MANIFEST", len(text) - 1)
    assert "at most" in said(reader, tmp_path, text)


# XML


def test_xml_tree(tmp_path: Path) -> None:
    text = '<?xml version="1.0"?><!-- note --><a x="1"><b>t&amp;<![CDATA[<]]></b>\n<b/></a>'
    tree = xml_file(put(tmp_path, text), "f")
    assert (tree.tag, tree.attrib, [b.text for b in tree.findall("b")]) == ("a", {"x": "1"}, ["t&<", None])


def test_xml_may_be_nested(tmp_path: Path) -> None:
    xml_file(put(tmp_path, "<a>" * limits.DEPTH + "</a>" * limits.DEPTH), "f")


LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n<l>&b;</l>'


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (LAUGHS, "line 1, column", "a DOCTYPE"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "line 1, column", "a DOCTYPE"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "line 1, column", "a DOCTYPE"),
        ("<a>\n&lol;</a>", "line 2, column 1", "undefined entity"),
        ("<a>\n <b></a>", "line 2, column 7", "mismatched tag"),
        ("<a>" * 101, "line 1, column 301", "more than 100 levels"),
        ("<a x='1' x='2'/>", "line 1, column 10", "duplicate attribute"),
        ("<a/><b/>", "line 1, column 5", "junk after"),
        ("", "line 1, column 1", "no element"),
        ('<?xml version="1.0" encoding="nope"?><a/>', "line 1, column", "unknown encoding"),
        ('<?xml version="1.0" encoding="idna"?><a/>', "line 1, column", "idna"),
        (b"<a>\xff</a>", "line 1, column 4", "not well-formed"),
        ("<a>\0</a>", "line 1, column 4", "not well-formed"),
    ],
)
def test_xml_faults_have_a_place(tmp_path: Path, text: str | bytes, where: str, words: str) -> None:
    message = said(xml_file, tmp_path, text)
    assert message.startswith(f"f, {where}")
    assert words in message


# Numbers


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_exact(value: float) -> None:
    assert number(repr(value), "x") == value
    assert number(f" {value!r}\n", "x") == value
    assert number(value, "x") == value


@pytest.mark.parametrize("told", ["1", "+1", "1.", " 1e0 ", 1, True + 1 - 1, "01"])
def test_ways_to_write_one(told: Any) -> None:
    assert number(told, "x") == 1.0


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("1,5", "'1,5' has a decimal comma; write 1.5"),
        ("-0,25", "write -0.25"),
        ("1.000,5", "expected a number, got '1.000,5'"),
        ("nan", "expected a number, got 'nan'"),
        ("inf", "expected a number, got 'inf'"),
        ("1e999", "1e999 is not a finite number"),
        (math.nan, "nan is not a finite number"),
        (math.inf, "inf is not a finite number"),
        pytest.param(10**5000, "more than 308 digits", id="huge"),
        ("", "expected a number, got nothing"),
        (None, "expected a number, got nothing"),
        (True, "expected a number, got True"),
        ("1_000", "expected a number"),
        ("١", "expected a number"),
        ("0x10", "expected a number"),
        ([1], "expected a number, got [1]"),
        ("5 deg", "expected a number, got '5 deg'"),
    ],
)
def test_what_is_no_number(told: Any, words: str) -> None:
    with pytest.raises(UnreadableCase) as error:
        number(told, "labels.csv, line 7: angle")
    assert str(error.value).startswith("labels.csv, line 7: angle: ")
    assert words in str(error.value)
