import logging
import subprocess
import sys
import warnings

import pytest
import torch

from regard.train import Training
from regard.train.devices import launch_fabric, matmul_precision, quiet_lightning


def test_one_process_on_the_device_that_was_asked_for(capfd):
    fabric = launch_fabric(Training(device="cpu", precision="bf16-mixed"))
    assert (fabric.device.type, fabric.world_size, fabric.global_rank) == ("cpu", 1, 0)
    assert capfd.readouterr() == ("", "")


def test_half_precision_without_a_card_is_an_error_and_not_another_precision(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(ValueError, match="fit: 16-mixed needs a GPU, got a cpu; take bf16-mixed"):
        launch_fabric(Training(precision="16-mixed"))


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_one_sentence(device, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(ValueError, match=f"that this machine has, got {device}. Take training.dev"):
        launch_fabric(Training(device=device))


def test_lightning_is_not_imported_before_something_is_trained():
    code = "import sys, regard.train; sys.exit('lightning_fabric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_loggers_and_warnings_are_what_they_were_before():
    logger, filters = logging.getLogger("lightning_fabric"), list(warnings.filters)
    with quiet_lightning():
        level = logger.level
    assert level == logging.ERROR
    assert logger.level != logging.ERROR
    assert warnings.filters == filters


def test_tf32_holds_while_training_and_no_longer():
    before = torch.get_float32_matmul_precision()
    with matmul_precision(Training(precision="tf32")):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    with matmul_precision(Training()):
        assert torch.get_float32_matmul_precision() == before
