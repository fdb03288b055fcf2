"""audit.json is checked field by field; whatever it holds, the answer is an Audit or one clear line."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coalmine.audit.verdict.result import AuditResult
from coalmine.foundation import InputError
from coalmine.reports.markdown import model_card
from coalmine.reports.read import read_audit, read_audits
from coalmine.reports.summary import summarise

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**20)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=12)
    | st.sampled_from(["", "\ud800", "\x00</script>", "A", "none", 10**400, -1, 0, 1, 2]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def paths(content, above=()):
    """Every place of a JSON document, whole lists of numbers as one place and their first element as another."""
    yield above
    if isinstance(content, dict):
        for name, value in content.items():
            yield from paths(value, (*above, name))
    elif isinstance(content, list) and content:
        yield from paths(content[0], (*above, 0))


def put(content, path, value):
    if not path:
        return value
    content[path[0]] = put(content[path[0]], path[1:], value)
    return content


def test_a_real_audit_is_read_whole(rejected):
    audit = read_audit(rejected)
    assert audit.verdict == "rejected"
    assert audit.counts.correct == 285
    assert audit.claim.accuracy.promised == rejected["claim"]["accuracy"]["upper"]
    assert audit.estimate("attack_accuracy").interval == tuple(rejected["estimates"][0]["interval"])
    assert audit.roc.true_positive_rate == tuple(rejected["roc"]["true_positive_rate"])
    assert [point.refused is None for point in audit.roc.operating_points] == [False, False, True]


def test_a_file_and_its_content_are_the_same_audit(rejected, tmp_path):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(rejected), "utf-8")
    from_file, from_content = read_audit(path), read_audit(rejected)
    assert from_file == from_content


def test_fields_of_a_later_version_are_no_reason_to_refuse(rejected):
    rejected["later"] = rejected["counts"]["later"] = {"anything": 1}
    assert read_audit(rejected).counts.canaries == 500


def test_an_audit_without_a_label_is_named_after_its_folder(rejected, tmp_path):
    path = tmp_path / "run 7" / "audit.json"
    path.parent.mkdir()
    path.write_text(json.dumps(rejected | {"label": ""}), "utf-8")
    assert read_audit(path).label == "run 7"
    assert read_audit(rejected | {"label": ""}).label == "unnamed audit"


def test_audits_of_one_label_are_told_apart(rejected):
    assert [audit.label for audit in read_audits([rejected, rejected])] == ["noise forgotten", "noise forgotten (2)"]


@pytest.mark.parametrize(
    "path, value, told",
    [
        (("schema_version",), 3, "schema_version must be 1 or 2, got 3"),
        (("schema_version",), None, "schema_version must be 1 or 2"),
        (("label",), 7, "label must be text, got 7"),
        (("verdict",), "safe", "verdict must be one of rejected, not_rejected, no_power, no_claim, got 'safe'"),
        (("p_value",), 1.5, "p_value must be a finite number from 0 to 1, got 1.5"),
        (("counts", "correct"), 297, "counts.correct must be at most guesses (296), got 297"),
        (("counts", "guesses"), 501, "counts.guesses must be at most canaries (500)"),
        (("counts", "members"), 499, "counts.canaries must be at least members + non_members"),
        (("counts", "ties"), -1, "counts.ties must be a whole number of at least 0, got -1"),
        (("counts", "ties"), True, "counts.ties must be a whole number"),
        (("claim",), None, "claim must be an object where verdict is 'rejected'"),
        (("claim", "accuracy"), {"lower": 0.7, "upper": 0.6}, "claim.accuracy.lower must be at most upper (0.6)"),
        (("estimates", 0, "class"), "D", "estimates[0].class must be one of A, B, C, runs, Bayesian, none, got 'D'"),
        (("estimates", 0, "interval"), [0.7, 0.6], "estimates[0].interval must be a pair with low at most high"),
        (("estimates", 0, "interval"), [0.7], "estimates[0].interval must be a pair [low, high]"),
        (("roc", "true_positive_rate"), [0.0, 1.0], "roc.true_positive_rate must be a list of"),
        (("roc", "auc"), "high", "roc.auc must be a finite number"),
        (("histogram", "members"), [1, 2], "histogram.members must be a list of 40 numbers, got '2 of them'"),
        (("histogram", "edges"), list(range(40, -1, -1)), "histogram.edges must be a list in rising order"),
    ],
)
def test_an_impossible_field_is_named_with_its_value(rejected, path, value, told):
    with pytest.raises(InputError) as error:
        read_audit(put(rejected, path, value))
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("field", ["label", "counts", "estimates", "alpha", "verdict", "claim", "schema_version"])
def test_a_missing_field_is_named(rejected, field):
    del rejected[field]
    with pytest.raises(InputError, match=f"{field} must be"):
        read_audit(rejected)


@pytest.mark.parametrize("missing", ["run", "roc", "histogram", "p_value", "power", "threat_model", "versions"])
def test_what_an_audit_may_lack(rejected, missing):
    del rejected[missing]
    assert isinstance(read_audit(rejected), AuditResult)


@pytest.mark.parametrize(
    "content, told",
    [
        (b"", "not valid JSON"),
        (b"\x80\x04\x95", "not valid JSON"),
        (b"[]", "holds [] where an object is needed"),
        (b'{"schema_version": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_file_that_is_no_audit(tmp_path, content, told):
    path = tmp_path / "audit.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_audit(path)
    assert told in str(error.value) and str(path) in str(error.value)


def test_a_missing_file_and_no_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_audit(tmp_path / "audit.json")
    with pytest.raises(InputError, match="at least one audit"):
        read_audits([])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_gives_an_audit_or_one_clear_line(_contents, data):
    content = json.loads(json.dumps(_contents["rejected"]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(list(paths(content))))
        content = put(content, place, data.draw(_JSON))
        if not isinstance(content, dict):
            break
    try:
        audit = read_audit(content) if isinstance(content, dict) else None
    except InputError as error:
        assert "\n" not in str(error)
        str(error).encode("utf-8")
        return
    if audit is not None:
        said = summarise(audit)
        "".join([said.claimed, said.measured, said.shown, *said.next_steps, model_card(audit)]).encode("utf-8")
