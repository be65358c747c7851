"""What a command line or a log keeps secret is hidden, and all else stays as it is."""

from __future__ import annotations

import pytest

from spectrace.hidden import command_without_secrets, is_secret, text_without_secrets


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("--api-key s3cret --port 3", "--api-key … --port 3"),
        ("--admin-api-key=s3cret --api_key s3cret", "--admin-api-key=… --api_key …"),
        ("--apikey s3cret --hf-token s3cret", "--apikey … --hf-token …"),
        ("--passwd s3cret --credentials s3cret", "--passwd … --credentials …"),
        ("--enable-keyframe --model m", "--enable-keyframe --model m"),
        ("--auth --model m", "--auth --model m"),
        ("--speculative-num-draft-tokens 4", "--speculative-num-draft-tokens 4"),
        ("HF_TOKEN=s3cret python", "HF_TOKEN=… python"),
        ("env A_API_KEY=s3cret PGPASSWORD=s3cret x", "env A_API_KEY=… PGPASSWORD=… x"),
        ("A_SECRET_B=s3cret x", "A_SECRET_B=… x"),
        ("PASSWORD=s3cret python", "PASSWORD=… python"),
        ('--json {"api_key":"s3cret","n":3}', '--json {"api_key":"…","n":3}'),
        ("--url http://a:s3cret@host:1/?k=s3cret&y=s3cret", "--url http://…@host:1/?k=…&y=…"),
        ("--url=http://host/x?token=s3cret", "--url=http://host/x?token=…"),
        ("--model a/b --x=1", "--model a/b --x=1"),
    ],
)  # fmt: skip
def test_a_command_is_shown_without_its_secrets(command: str, shown: str) -> None:
    """Word for word; an option without a value does not hide the one behind it."""
    assert " ".join(command_without_secrets(command.split())) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("server_args=Args(api_key='s3cret', port=3)", "server_args=Args(api_key='…', port=3)"),
        ('{"hf_token": "s3\\"cret", "n": [1]}', '{"hf_token": "…", "n": [1]}'),
        ('{"api_keys": ["s3cret", "s3cret"]}', '{"api_keys": …}'),
        ("HF_TOKEN=s3cret serve --api-key 's3 cret' --n 2", "HF_TOKEN=… serve --api-key '…' --n 2"),
        ("-H 'Authorization: Bearer s3cret-s3cret' x", "-H 'Authorization: …' x"),
        ("sent Bearer s3cretive", "sent Bearer …"),
        ("no https://ann:s3cret@host/a?sig=s3cret: 401", "no https://…@host/a?sig=… 401"),
        ("Prefill, #new-token: 5, token usage: 0.00", "Prefill, #new-token: 5, token usage: 0.00"),
        ("KeyError: 'draft_tokens'", "KeyError: 'draft_tokens'"),
    ],
)
def test_a_line_of_a_log_is_shown_without_its_secrets(text: str, shown: str) -> None:
    """In the forms in which servers print their settings."""
    assert text_without_secrets(text) == shown


def test_a_word_of_a_megabyte_is_passed_in_no_time() -> None:
    """Each place of it is looked at a few times, whatever it is made of."""
    for part in ("a", "a-", "--a", "=", "a=", '"', "://", "a@", "?a"):
        word = part * (1_000_000 // len(part))
        assert "s3cret" not in command_without_secrets((word,))[0]


def test_names_that_are_secret_are_told_by_their_parts() -> None:
    """A key ends a part of the name; tokens that are counted are none."""
    assert all(map(is_secret, ("--ssl-keyfile-password", "hf_token", "apiKey", "x.auth")))
    assert not any(map(is_secret, ("--max-total-tokens", "--keyframe", "author", "monitor")))
