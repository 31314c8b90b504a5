"""Wrong YAML gets the line and a sentence; right YAML means what it means to kubectl."""

import pytest

from split_ppo.jobfile import JobFileError, load_jobs

JOB = """\
apiVersion: splitppo.io/v1alpha1
kind: SplitPPOJob
metadata: {name: first}
spec:
  placement:
    total: {gpusPerNode: 4}
  training:
    model: {actor: model}
    data: {train: [train.parquet]}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        load_jobs(text, "job.yaml")
    return str(caught.value).splitlines()


def test_reads_the_jobs_and_keeps_the_rest() -> None:
    text = f"{JOB}---\nkind: ConfigMap\napiVersion: v1\ndata: {{a: b}}\n---\n{JOB.replace('first', 'second')}---\n"
    loaded = load_jobs(text, "job.yaml")
    assert [item.job.metadata.name for item in loaded.jobs] == ["first", "second"]
    assert [other["kind"] for other in loaded.others] == ["ConfigMap"]


def test_reads_numbers_as_kubernetes_does() -> None:
    [item] = load_jobs(JOB + "    learningRate: {actor: 1e-6, critic: 2E-5}\n", "job.yaml").jobs
    assert item.job.spec.training.learning_rate.actor == 1e-6
    assert item.job.spec.training.learning_rate.critic == 2e-5


def test_null_is_the_same_as_left_out() -> None:
    [item] = load_jobs(JOB + "  suspend: null\n  runPolicy: {activeDeadlineSeconds: null}\n", "job.yaml").jobs
    assert item.job.spec.suspend is False


def test_null_stays_in_free_form_settings() -> None:
    [item] = load_jobs(JOB + "    config: {trainer: {logger: null}}\n", "job.yaml").jobs
    assert item.job.spec.training.config == {"trainer": {"logger": None}}


def test_a_finding_points_at_its_line() -> None:
    [item] = load_jobs(JOB, "job.yaml").jobs
    assert item.line_of("spec.placement.total.gpusPerNode") == 6
    assert item.line_of("spec.training.batchSize") == 7
    assert item.line_of("metadata.name") == 3


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("  placement", "\tplacement", 5, "a tab stands here; YAML indents with spaces"),
        ("total:", "totl:", 6, "unknown field spec.placement.totl. Did you mean total?"),
        ("gpusPerNode: 4", "gpusPerNode: 4, gpus_per_nod: 4", 6, "Did you mean gpusPerNode?"),
        (
            "gpusPerNode: 4",
            "gpusPerNode: 4, zzz: 4",
            6,
            "unknown field spec.placement.total.zzz. Known here: gpuResource",
        ),
        ("gpusPerNode: 4", "gpusPerNode: four", 6, "is the text 'four'; it must be a whole number"),
        ("gpusPerNode: 4", 'gpusPerNode: "4"', 6, "is the text '4'; it must be a whole number"),
        ("gpusPerNode: 4", "gpusPerNode: 0", 6, "is 0; it must be at least 1"),
        ("gpusPerNode: 4", "gpusPerNode: 4.5", 6, "is 4.5; it must be a whole number"),
        ("gpusPerNode: 4", "gpusPerNode: 4, memory: 64 GB", 6, "write it like 64Gi"),
        ("gpusPerNode: 4", "nodes: 2", 6, "spec.placement.total.gpusPerNode is missing: GPUs on each of them"),
        ("total: {gpusPerNode: 4}", "total: 4", 6, "spec.placement.total is 4; it must be a mapping"),
        ("total:", "mode: Splitt\n    total:", 6, "it can be Split or Colocated. Did you mean Split?"),
        ("  placement:", "  scheduling: {queueName: -}\n  placement:", 5, "is the text '-'; write it like team-queue"),
        ("actor: model", "actor: 7", 8, "is 7; it must be text (in quotes, if it looks like a number)"),
        ("train: [train.parquet]", "train: train.parquet", 9, "it must be a list"),
        ("train: [train.parquet]", "train: []", 9, "spec.training.data.train"),
        ("metadata: {name: first}", "metadata: {}", 3, "metadata.name is missing"),
        ("kind: SplitPPOJob", "kind: SplitPPJob", 2, "kind is 'SplitPPJob'; write `kind: SplitPPOJob`"),
        ("splitppo.io/v1alpha1", "splitppo.io/v1", 1, "write `apiVersion: splitppo.io/v1alpha1`"),
        ("    data:", "    model: {}\n    data:", 9, "the key model stands twice"),
        ("placement:", "placement: total:", 5, "where none can"),
    ],
)
def test_says_the_line_and_what_to_write(old: str, new: str, line: int, words: str) -> None:
    [problem] = problems(JOB.replace(old, new, 1))
    assert problem.startswith(f"job.yaml:{line}: ")
    assert words in problem


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    text = JOB.replace("total", "totl").replace("actor: model", "actr: model") + "  overlap: Sometimes\n"
    found = problems(text)
    assert len(found) == 4
    assert [int(p.split(":")[1]) for p in found] == sorted(int(p.split(":")[1]) for p in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("kind: Deployment\n", "it holds Deployment"),
        ("[1, 2]", "begins with `apiVersion: splitppo.io/v1alpha1`"),
        ("just text", "this is something else"),
        ("a: [", "not YAML"),
        ("a: \x00", "not YAML"),
        ("spec: {}", "kind is missing"),
    ],
)
def test_what_is_no_job_is_said_to_be_none(text: str, words: str) -> None:
    assert words in "\n".join(problems(text))
