"""Names in a checkpoint against names in a model: wrapper prefixes, and a guess where they do not agree.

A prefix is stripped only as a leading part, only if every name carries it, and only if the result is the model's
names. Replacing it anywhere (which is done) turns `my_module.weight` into `myweight`.

| wrapper | names begin with |
|---|---|
| torch.compile(model) | _orig_mod. |
| DataParallel, DistributedDataParallel | module. |
| AveragedModel (EMA, SWA) | module., and one more entry n_averaged |
| Opacus' GradSampleModule | _module. |

and any nesting of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...foundation import InputError

PREFIXES = ("module.", "_module.", "_orig_mod.")
_COUNTER = "n_averaged"  # how many models an AveragedModel has averaged: no weight
_HARMLESS = "num_batches_tracked"  # absent from old checkpoints, unused in eval mode


def match_names(
    checkpoint: Iterable[str],
    model: Iterable[str],
    *,
    tied: Mapping[str, set[str]] | None = None,
    any_prefix: bool = False,
) -> dict[str, str]:
    """Checkpoint name of each model name: {model name: checkpoint name}.

    tied: model name -> all model names of the same tensor, of which one needs to be stored.
    any_prefix: one leading attribute of any name may be stripped too (Lightning: `net.` of a LightningModule).
    Errors: InputError that lists missing and unexpected names, with a guess why.
    """
    checkpoint, model = list(checkpoint), list(model)
    tied = tied or {}
    stored_levels = _levels({name: name for name in checkpoint}, any_prefix)
    wanted_levels = _levels({name: name for name in model}, False)
    for wanted in wanted_levels:
        for stored in stored_levels:
            found = _matched(stored, wanted, tied)
            if found is not None:
                return found
    closest = max(stored_levels, key=lambda stored: len(stored.keys() & set(model)))
    raise InputError(_difference(list(closest), model))


def _levels(names: dict[str, str], any_prefix: bool) -> list[dict[str, str]]:
    """{stripped name: original name} after 0, 1, 2, … prefixes, for as long as every name carries one."""
    levels = [names]
    while True:
        if len(names) > 1 and _COUNTER in names:
            names = {name: original for name, original in names.items() if name != _COUNTER}
            levels.append(names)
        first = {name.partition(".")[0] + "." for name in names if "." in name}
        shared = first.pop() if len(first) == 1 and all("." in name for name in names) else None
        if shared is None or not (any_prefix or shared in PREFIXES):
            return levels
        names = {name[len(shared) :]: original for name, original in names.items()}
        levels.append(names)


def _matched(stored: dict[str, str], wanted: dict[str, str], tied: Mapping[str, set[str]]) -> dict[str, str] | None:
    """{model name: checkpoint name} if the two levels agree, otherwise None."""
    if not stored.keys() <= wanted.keys():
        return None
    found = {full: stored[short] for short, full in wanted.items() if short in stored}
    for full in wanted.values():
        if full in found or full.endswith(_HARMLESS):
            continue
        twin = next((name for name in sorted(tied.get(full, ())) if name in found), None)
        if twin is None:
            return None
        found[full] = found[twin]
    return found


def _difference(checkpoint: list[str], model: list[str]) -> str:
    missing = [name for name in model if name not in set(checkpoint)]
    unexpected = [name for name in checkpoint if name not in set(model)]
    parts = [
        f"{what} {len(names)}: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
        for what, names in (("missing", missing), ("unexpected", unexpected))
        if names
    ]
    return f"its names do not fit the model ({'; '.join(parts)}). {_guess(missing, unexpected, checkpoint, model)}"


def _guess(missing: list[str], unexpected: list[str], checkpoint: list[str], model: list[str]) -> str:
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    if missing and not unexpected and all(name.endswith(statistics) for name in missing):
        return (
            "The checkpoint has no BatchNorm statistics: it was trained with GroupNorm in its place (Opacus' "
            "ModuleValidator.fix does that); give a model function that replaces it the same way"
        )
    if unexpected and not missing and all(name.endswith(statistics) for name in unexpected):
        return "The checkpoint has BatchNorm where the model has another norm: give the model that was trained"
    for name in sorted({name.partition(".")[0] for name in checkpoint if "." in name}):
        inner = {key[len(name) + 1 :] for key in checkpoint if key.startswith(name + ".")}
        if inner == set(model):
            return (
                f"The weights are those under {name!r}: save that part alone: torch.save(x.{name}.state_dict(), path)"
            )
    if not set(checkpoint) & set(model):
        return "No name agrees: the model is another architecture, or its layers are named otherwise"
    if not unexpected:
        return "The model has layers that the checkpoint lacks: another architecture, or only a part was saved"
    if not missing:
        return "The checkpoint has layers that the model lacks: give the model that was trained"
    return "Another architecture or another version of it: give the model that was trained"
