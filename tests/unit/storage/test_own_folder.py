import os
import stat
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from tierscope.storage import own_folder as own_folder_module
from tierscope.storage.own_folder import (
    FolderError,
    check_own_folder,
    check_way,
    check_writable,
    close_umask,
    own_folder,
)


def use(path, **options):
    with own_folder(path, **options) as folder:
        return os.fstat(folder)


@pytest.fixture
def set_umask():
    """Set the umask until the end of a test; return the one before."""
    before = os.umask(0)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(
    ("found", "left"), [(0, 0o002), (0o022, 0o022), (0o077, 0o077)]
)
def test_only_others_lose_what_the_users_umask_gives(set_umask, found, left):
    set_umask(found)
    close_umask()
    assert set_umask(0) == left


def test_made_folder_is_for_this_user_only(tmp_path):
    state = use(tmp_path / "a" / "b", make=True)
    assert stat.S_IMODE(state.st_mode) == 0o700
    assert (tmp_path / "a" / "b").is_dir()


def test_descriptor_stays_that_of_the_folder(tmp_path):
    with own_folder(tmp_path / "a", make=True) as folder:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    assert os.listdir(tmp_path / "b") == ["file"]
    assert os.listdir(tmp_path / "a") == []


def test_missing_folder_is_not_made_unasked(tmp_path):
    with pytest.raises(FileNotFoundError):
        use(tmp_path / "a")


def test_link_and_file_are_refused(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "link").symlink_to("victim")
    (tmp_path / "file").touch()
    for make in (True, False):
        with pytest.raises(FolderError, match="link: is a link, expected"):
            use(tmp_path / "link", make=make)
        with pytest.raises(FolderError, match="file: is not a directory, expected"):
            use(tmp_path / "file", make=make)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o1777])
def test_folder_to_which_others_may_write_is_refused(tmp_path, mode):
    path = tmp_path / "a"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(FolderError, match=rf"\(mode {mode:04o}\): chmod go-w {path}"):
        use(path)


def test_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(FolderError, match=f"belongs to user {user}.* another root"):
        use(tmp_path)


def test_folder_that_another_user_closes_is_said_to_be_his(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    user = os.geteuid()
    with monkeypatch.context() as closed:  # root may enter each folder
        closed.setattr(os, "geteuid", lambda: user + 1)
        closed.setattr(os, "open", refuse)
        with pytest.raises(FolderError, match=f"^{tmp_path}: belongs to user {user}"):
            use(tmp_path)
    for call, make in (("mkdir", True), ("lstat", False)):
        with monkeypatch.context() as closed:
            closed.setattr(os, call, refuse)
            with pytest.raises(FolderError, match=r"belongs to user .* another path"):
                use(tmp_path / "a", make=make)


def test_users_are_named_if_the_machine_knows_them():
    assert own_folder_module._name_of(0) == "user 0 (root)"
    assert own_folder_module._name_of(2**31 - 2) == f"user {2**31 - 2}"


def test_way_through_a_folder_that_all_may_change_is_refused(tmp_path):
    public = tmp_path / "public"
    public.mkdir()
    public.chmod(0o777)
    for attempt in (partial(use, make=True), check_own_folder):
        with pytest.raises(FolderError, match=f"{public}: all users may replace"):
            attempt(public / "a" / "b")
    public.chmod(0o1777)
    use(public / "a" / "b", make=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_way_through_what_another_user_has_planted_is_refused(tmp_path):
    public, mine = tmp_path / "public", tmp_path / "mine"
    public.mkdir()
    public.chmod(0o1777)
    mine.mkdir()
    (public / "folder").mkdir()
    (public / "link").symlink_to(mine)
    for name in ("folder", "link"):
        os.chown(public / name, 4321, 4321, follow_symlinks=False)
        with pytest.raises(FolderError, match=f"{name}: belongs to user 4321, who"):
            use(public / name / "a", make=True)


def test_refusal_of_a_way_gives_the_command_to_type(tmp_path, monkeypatch):
    public = tmp_path / "a b"
    public.mkdir()
    public.chmod(0o777)
    end = r" \(mode 0777, without sticky bit\): "
    with pytest.raises(FolderError, match=rf"{end}chmod o-w '{public}'$"):
        check_way(public)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    remedy = rf"chmod \+t '{public}' \(as user {user}, its owner\)$"
    with pytest.raises(FolderError, match=f"{end}{remedy}"):
        check_way(public)


def test_check_of_an_own_folder_makes_nothing(tmp_path):
    check_own_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir(mode=0o770)
    (tmp_path / "a").chmod(0o770)
    with pytest.raises(FolderError, match=f"chmod go-w {tmp_path / 'a'}"):
        check_own_folder(tmp_path / "a")


def test_folder_that_cannot_be_written_is_named_with_the_reason(tmp_path, monkeypatch):
    check_writable(tmp_path / "a" / "b")
    with pytest.raises(NotADirectoryError, match="/dev/null"):
        check_writable(Path("/dev/null/a"))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(FolderError, match=rf"^{tmp_path}: belongs .* another path"):
        check_writable(tmp_path / "a" / "b")
    state = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr(os, "statvfs", lambda _: state)
    with pytest.raises(OSError, match="Read-only file system") as refusal:
        check_writable(tmp_path / "a" / "b")
    assert refusal.value.filename == str(tmp_path)


def test_links_on_the_way_are_followed_from_where_they_are(tmp_path):
    (tmp_path / "x" / "real").mkdir(parents=True)
    (tmp_path / "x" / "near").symlink_to("real")
    (tmp_path / "up").symlink_to("x/../x/near")
    use(tmp_path / "up" / "a", make=True)
    assert (tmp_path / "x" / "real" / "a").is_dir()


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises((FolderError, OSError)):
        use(tmp_path / "a" / "x")
