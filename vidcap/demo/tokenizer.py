"""The demo pair's tokenizer: a small byte-level BPE in the class and file layout of Qwen2.

Any text encodes, because every byte is a token; the merges are learnt from captions and questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import pre_tokenizers
from transformers import Qwen2Tokenizer

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
VISION_START = "<|vision_start|>"
VISION_END = "<|vision_end|>"
VISION_PAD = "<|vision_pad|>"
IMAGE_PAD = "<|image_pad|>"
VIDEO_PAD = "<|video_pad|>"

SPECIAL_TOKENS: tuple[str, ...] = (
    END_OF_TEXT,
    TURN_START,
    TURN_END,
    VISION_START,
    VISION_END,
    VISION_PAD,
    IMAGE_PAD,
    VIDEO_PAD,
)

SYSTEM_PROMPT = "You describe videos."

#: Turns as Qwen2.5-VL lays them out; a video item becomes one placeholder between its two marks.
CHAT_TEMPLATE = """\
{%- if messages[0].role != 'system' -%}
<|im_start|>system
SYSTEM_PROMPT<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}
{%- else %}
{%- for item in message.content %}
{%- if item.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>
{%- elif item.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>
{%- elif item.type == 'text' %}{{ item.text }}
{%- endif %}
{%- endfor %}
{%- endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
""".replace("SYSTEM_PROMPT", SYSTEM_PROMPT)

#: Everyday words, so that a user's own question costs few tokens.
COMMON_WORDS = """\
a about after again all also an and animal any are area around as ask at away back be because been
before behind below between bird both building but by camera can car cat change child city close
clip come could count day describe detail did different do does dog door down drive each end every
explain face fall fast field find first five floor follow food for four frame from front girl give
go grass ground group hand happen happens has have he head her here high him his hold house how
human if in indoor inside into is it its jump just kind know large last left light like list long
look looks low main make man many me more most move moves much near new next night no not now
number object objects of off old on one only open or other out outside over part people person
picture place play point put question road room run same say scene second see she short show side
sit sky slow small some someone speed stand start stop street sun take talk tell ten text than that
the their them then there they thing things third this three through time to together top tree turn
two under up very video view walk wall was water way we wear weather were what when where which
while who why will window with woman word work write year yes you your"""


def train_tokenizer(texts: Iterable[str], size: int = 1536) -> Any:
    """A tokenizer whose merges are learnt from ``texts``.

    Args:
        texts: what the models will read and write.
        size: most entries, bytes and special tokens included; fewer where words run out.

    Returns:
        A ``Qwen2Tokenizer`` with :data:`CHAT_TEMPLATE`; ids of special tokens come first, in the
        order of :data:`SPECIAL_TOKENS`.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    base = Qwen2Tokenizer(
        vocab={token: index for index, token in enumerate((*SPECIAL_TOKENS, *alphabet))},
        merges=[],
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=list(SPECIAL_TOKENS[1:]),
        model_max_length=32768,
    )
    tokenizer = base.train_new_from_iterator(_with_common_words(texts), vocab_size=size)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _with_common_words(texts: Iterable[str]) -> Iterator[str]:
    yield from texts
    words = COMMON_WORDS.split()
    yield from (" ".join(words) for _ in range(2))
    yield " ".join(word.capitalize() for word in words)
