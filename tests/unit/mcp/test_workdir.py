import pytest

from art_core.errors import InputError
from art_integrations.mcp.workdir import check_fixture, fresh_workdir


async def test_a_copy_of_the_fixture_that_is_gone_afterwards(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("one")
    async with fresh_workdir(tmp_path) as workdir:
        (workdir / "deep" / "a.txt").write_text("two")
    assert not workdir.exists()
    assert (tmp_path / "deep" / "a.txt").read_text() == "one"


async def test_every_workdir_is_another_and_empty_without_a_fixture():
    async with fresh_workdir(None) as one, fresh_workdir(None) as two:
        assert one != two
        assert list(one.iterdir()) == []


async def test_write_protected_directories_are_removed_too():
    async with fresh_workdir(None) as workdir:
        (workdir / "locked" / "deep").mkdir(parents=True)
        (workdir / "locked" / "deep").chmod(0o500)
        (workdir / "locked").chmod(0o500)
    assert not workdir.parent.exists()


async def test_links_in_the_fixture_stay_links(tmp_path):
    (tmp_path / "link").symlink_to("target")
    async with fresh_workdir(tmp_path) as workdir:
        assert (workdir / "link").is_symlink()


def test_a_fixture_that_is_no_directory_is_named(tmp_path):
    with pytest.raises(InputError, match="gone' is not a directory"):
        check_fixture(tmp_path / "gone")
