"""The resume benchmark, on a small file."""

from bench import resume
from logflume.limits import STEP_BYTES
from tests.unit.compression_samples import gzip_member, log_lines


def test_it_reports_constant_work_with_a_state_and_growing_work_without(tmp_path):
    path = tmp_path / "app.log.gz"
    path.write_bytes(gzip_member(log_lines(STEP_BYTES) * 13, by_igzip=True))
    figures = resume.run(path)
    for share in ("10%", "50%", "90%"):
        edge = figures[f"state_{share}"]["edge_mb"] << 20
        assert figures[f"state_{share}"]["resumed"] == "state"
        assert figures[f"state_{share}"]["inflated_bytes"] == STEP_BYTES
        assert figures[f"fallback_{share}"]["resumed"] == "skip"
        assert figures[f"fallback_{share}"]["inflated_bytes"] == edge + STEP_BYTES
    assert 0 < figures["checkpoint_bytes_median"] <= figures["checkpoint_bytes_max"] < 100_000
