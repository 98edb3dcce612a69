"""Documents that are made from something else stay in step with it."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from programs.client_table import BEGIN, CLIENTS, END, PAGE, POLICIES
from tierscope.core.output.version import VERSION
from write_documents import config_readme, tables_page

ROOT = Path(__file__).parents[2]


PYTHONS = ["3.11", "3.12", "3.13"]


def pins_of(requirements):
    """Return the version of each package; a second one of a package is a failure."""
    found = [Requirement(requirement) for requirement in requirements]
    pins = {one.name: str(one.specifier).removeprefix("==") for one in found}
    assert len(pins) == len(found)
    return pins


def pyproject_pins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    return pins_of(wanted)


def lock_requirements():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line.rstrip("\\ ") for line in lines if re.match(r"\w", line)]


def lock_pins():
    return pins_of(lock_requirements())


def environment_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    _, *conda, pip = environment["dependencies"]
    return pins_of([one.replace("=", "==") for one in conda] + pip["pip"])


def test_config_readme_is_generated_from_the_schemas():
    text = (ROOT / "config" / "README.md").read_text()
    assert text == config_readme(), "out of date; run: make docs"


def test_page_of_tables_is_generated_from_the_contracts():
    text = (ROOT / "docs" / "tables.md").read_text()
    assert text == tables_page(), "out of date; run: make docs"


def test_table_of_programs_has_what_its_tests_run():
    made = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    lines = [line for line in made.splitlines() if line.startswith("|")]
    header, _, *titles = [line.strip("| ").split(" | ")[0] for line in lines]
    wanted = [client.title for client in CLIENTS]
    assert (header, titles) == ("program", wanted), "run: make test-programs WRITE=1"
    assert all(f"tier, {policy} |" in lines[0] for policy in POLICIES)


def test_lock_holds_the_pins_of_pyproject():
    lock = lock_pins()
    assert {name: lock.get(name) for name in pyproject_pins()} == pyproject_pins()


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_holds_what_each_python_needs(python):
    """All but PyDarshan, a reference of tests: it has no wheels from 3.13 on."""
    machine = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    wanted = map(Requirement, lock_requirements())
    lacked = [
        one.name for one in wanted if one.marker and not one.marker.evaluate(machine)
    ]
    missing = ["darshan"] if python == "3.13" else []
    assert [name for name in pyproject_pins() if name in lacked] == missing


def test_all_places_name_the_same_pythons():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    allowed = SpecifierSet(project["project"]["requires-python"])
    found = [f"3.{minor}" for minor in range(20) if f"3.{minor}" in allowed]
    assert found == PYTHONS
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, *_ = environment["dependencies"]
    assert python == f"python {project['project']['requires-python']}"
    named = [one.split(" :: ")[-1] for one in project["project"]["classifiers"]]
    assert [one for one in named if one.startswith("3.")] == PYTHONS
    assert project["tool"]["ruff"]["target-version"] == "py311"
    script = (ROOT / "workflow" / "scripts" / "environment.sh").read_text()
    assert f"  {'.* | '.join(PYTHONS)}.*)" in script
    sentence = f"Python {', '.join(PYTHONS[:-1])} or {PYTHONS[-1]}"
    for text in (script, (ROOT / "README.md").read_text()):
        assert sentence in text
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (jobs,) = yaml.safe_load(workflow)["jobs"].values()
    assert jobs["strategy"]["matrix"]["python"] == PYTHONS


def test_lock_pins_by_hash_and_names_no_address():
    text = (ROOT / "requirements.lock").read_text()
    requirements = re.findall(r"^\w\S*==\S+.* \\\n    --hash=sha256:", text, re.M)
    assert len(requirements) == len(lock_pins()) > 50
    assert "://" not in text


def test_uv_and_what_builds_packages_are_pinned_by_hash():
    text = (ROOT / "requirements-build.lock").read_text()
    version = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    found = dict(re.findall(r"^(\S+)==(\S+) \\\n    --hash=sha256:", text, re.M))
    pins = lock_pins()
    expected = {name: pins[name] for name in ("packaging", "setuptools", "wheel")}
    assert found == {**expected, "uv": version[1]}
    assert text.count("==") == len(found)
    assert "://" not in text


@pytest.mark.parametrize("name", ["all", "mpi4py"])
def test_environment_of_compute_nodes_keeps_the_hashes(name):
    commands = (ROOT / "profiles" / "README.md").read_text()
    (command,) = re.findall(rf"^ *(awk .*) > compute/{name}\.lock$", commands, re.M)
    done = subprocess.run(
        command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True
    )
    packages = re.findall(r"^(\S+)==\S+.* \\\n    --hash=sha256:", done.stdout, re.M)
    foreign = {one for one in lock_pins() if one.startswith(("mpi", "tensorflow"))}
    expected = {"mpi4py"} if name == "mpi4py" else set(lock_pins()) - foreign
    assert set(packages) == expected
    assert len(packages) == len(re.findall(r"^\S", done.stdout, re.M))


def test_environment_is_in_step_with_the_lock():
    lock = lock_pins()
    assert environment_pins() == {name: lock[name] for name in pyproject_pins()}


def test_least_snakemake_is_that_of_the_documents_and_below_the_pin():
    snakefile = (ROOT / "workflow" / "Snakefile").read_text()
    (least,) = re.findall(r'^min_version\("(\d+\.\d+)\.0"\)$', snakefile, re.M)
    pages = {
        "docs/own-experiment.md": f"Snakemake ({least} or newer)",
        "docs/development.md": f"Snakemake {least} or newer",
        "tests/README.md": f"Snakemake {least} or newer",
    }
    for page, words in pages.items():
        assert words in " ".join((ROOT / page).read_text().split())
    pin = pyproject_pins()["snakemake"]
    assert Version(least) <= Version(pin)


class _WithoutDuplicates(yaml.SafeLoader):
    """Refuses a mapping that holds a key twice: the last would win, unsaid."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize(
    "path",
    [
        path
        for folder in ("config", "resources", "profiles", "workflow/schemas")
        for path in (ROOT / folder).rglob("*.yaml")
    ],
    ids=lambda path: path.name,
)
def test_no_key_stands_twice(path):
    assert yaml.load(path.read_text(), _WithoutDuplicates)


FOLDERS = ["docs", "config", "profiles", "resources", "tests", "workflow", "examples"]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md"))),
]
DOORS = ["programs", "logs", "paper", "cluster", "development"]
PICTURE = r'^<img src="[^"]+" width="\d+" alt="[^"]+">$'
NAMED = r"\bdocs/[a-z-]+\.md\b"


def links_of(page):
    """Return the links of a page to pages and pictures, as pairs of path and anchor."""
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text)
    links += [(path, "") for path in re.findall(r'<img src="([^"]+)"', text)]
    return [((page.parent / path) if path else page, name) for path, name in links]


def anchors_of(page):
    """Return the anchors that GitHub makes of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    broken = [str(path) for path, _ in links_of(page) if not path.exists()]
    assert broken == []


def test_all_places_name_the_same_version():
    of_citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    newest = re.search(r"^## (\d\S*) \(", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert of_citation == newest[1] == VERSION == str(Version(VERSION))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_of_a_page_are_headings(page):
    named = [(path, name) for path, name in links_of(page) if name]
    broken = [f"{path}#{name}" for path, name in named if name not in anchors_of(path)]
    assert broken == []


def test_pages_that_code_and_messages_name_exist():
    kinds = {".py", ".smk", ".yaml", ".rst", ".j2", ".c", ".h", ".sh"}
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    broken = [
        f"{path.relative_to(ROOT)}: {page}"
        for path in [ROOT / "Makefile", *files]
        if path.suffix in kinds or path.name == "Makefile"
        for page in re.findall(NAMED, path.read_text(errors="replace"))
        if not (ROOT / page).exists() and "plugins" not in path.parts
    ]
    assert broken == []


def test_readme_leads_to_the_five_doors():
    text = (ROOT / "README.md").read_text()
    table = text.split("## Five doors\n")[1].split("\n## ")[0]
    assert re.findall(r"\(docs/([a-z-]+)\.md\)", table) == DOORS


@pytest.mark.parametrize("name", DOORS)
def test_door_is_one_screen_with_commands_and_a_picture(name):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.M)
    wanted = ["How to read it", "What it does not say", "Behind it"]
    assert [one for one in headings if one in wanted] == wanted
    assert headings[-1] == "Behind it"
    assert len(re.findall(PICTURE, text, re.M)) == 1
    assert re.search(r"^    (?:make|tierscope|snakemake) ", text, re.M)
    assert len(text.split()) <= 450


def test_every_page_is_reached_from_the_doors():
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        found = {path.resolve() for page in new for path, _ in links_of(page)}
        new = {path for path in found - reached if path.suffix == ".md"}
    assert {page for page in PAGES if page.parent == ROOT / "docs"} <= reached
    pictures = {path.resolve() for page in reached for path, _ in links_of(page)}
    assert set((ROOT / "docs").glob("*.png")) <= pictures


def test_docs_stay_short():
    """Details stand once; what is longer than this is not read."""
    pages = {ROOT / "README.md", *(ROOT / "docs").glob("*.md")}
    made = {ROOT / "docs" / "tables.md"}
    assert sum(len(page.read_text().split()) for page in pages - made) <= 32_600
