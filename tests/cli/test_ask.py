from __future__ import annotations

import json

from tests.cli.fakes import WORDS

TEXT = "".join(WORDS)


def test_one_question_gives_the_answer_alone(cli, clip):
    result = cli("ask", clip("a.mp4"), "What moves?")
    assert (result.exit_code, result.stdout) == (0, TEXT + "\n")


def test_several_questions_are_headed_and_share_one_session(cli, clip):
    result = cli("ask", clip("a.mp4"), "What moves?", "Which\ncolour?")
    assert result.stdout == (f"--> What moves? <--\n{TEXT}\n\n--> Which\\ncolour? <--\n{TEXT}\n")
    assert [call[0] for call in cli.calls] == [
        "prefetch", "load", "open", "answer", "answer", "close"
    ]  # fmt: skip


def test_json_is_an_object_for_one_question_and_a_list_for_more(cli, clip):
    one = json.loads(cli("ask", "--format", "json", clip("a.mp4"), "What moves?").stdout)
    assert (one["kind"], one["question"], one["prompt"]) == ("ask", "What moves?", "What moves?")
    two = json.loads(cli("ask", "--format", "json", clip("a.mp4"), "One?", "Two?").stdout)
    assert [record["question"] for record in two] == ["One?", "Two?"]


def test_the_prompt_option_is_put_before_each_question(cli, clip):
    cli("ask", "--prompt", "Answer with one word.", clip("a.mp4"), "Colour?", "Shape?")
    prompts = [call[1] for call in cli.calls if call[0] == "answer"]
    assert prompts == ["Answer with one word.\nColour?", "Answer with one word.\nShape?"]


def test_a_failed_video_gives_an_error_record_per_question_and_one_message(cli, clip):
    path = clip("broken.mp4")
    result = cli("ask", "-q", "--format", "json", path, "One?", "Two?")
    assert [record["status"] for record in json.loads(result.stdout)] == ["error", "error"]
    assert result.stderr.count("vidcap: error:") == 1
    assert result.exit_code == 1


def test_a_failure_half_way_gives_records_for_what_is_left_only(cli, clip, monkeypatch):
    answered = []

    def answer(self, prompt, **how):
        if answered:
            raise ValueError("second one fails")
        answered.append(prompt)
        return original(self, prompt, **how)

    from tests.cli.fakes import FakeSession

    original = FakeSession.answer
    monkeypatch.setattr(FakeSession, "answer", answer)
    result = cli("ask", "--format", "json", clip("a.mp4"), "One?", "Two?", "Three?")
    records = json.loads(result.stdout)
    assert [(r["question"], r["status"]) for r in records] == [
        ("One?", "ok"),
        ("Two?", "error"),
        ("Three?", "error"),
    ]


def test_a_question_is_needed_and_must_not_be_empty(cli, clip):
    missing = cli("ask", clip("a.mp4"))
    assert missing.exit_code == 2
    assert missing.stderr == (
        "vidcap: error: missing argument 'QUESTION'\nhint: see vidcap ask --help\n"
    )
    assert cli("ask", clip("a.mp4"), " ").stderr == "vidcap: error: a question is empty\n"
