"""Speculative decoding of Video-LLMs: token ids and tensors only.

Nothing here knows files, prompts, videos or printing. Two models that satisfy
:class:`vidcap.engine.model.LanguageModel` are enough to run it.
"""
