"""Words in, ids out: a word-level tokenizer on the Rust `tokenizers` library."""

import os

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4, in every vocabulary


class ToyBertTokenizer(PreTrainedTokenizerFast):
    """Splits text into lower-case words and frames them as BERT does: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    A word that the vocabulary lacks is one `[UNK]`. Text is brought to Unicode's NFC form, lower-cased and split on
    white space. With `split_punctuation`, every punctuation mark is a word of its own: "The cat sat." has four. Without
    it, only white space divides, so that symbols such as `dx:I10` stay whole. Offsets are those of the given text; an
    accent that was typed apart from the last letter of a word is outside of its word's.

    `ToyBertTokenizer(vocab=...)` takes a dict from word to id whose first five are the special tokens, or nothing but
    them when `vocab` is left out: `ToyBertTokenizer().train_new_from_iterator(texts, vocab_size=500)` learns the rest.

    Raises:
        ValueError: the vocabulary does not give [PAD], [UNK], [CLS], [SEP], [MASK] the ids 0 to 4.
        FileNotFoundError: `tokenizer_file` does not exist.
    """

    vocab_files_names = {"tokenizer_file": "tokenizer.json"}
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    padding_side = "right"
    truncation_side = "right"

    def __init__(
        self,
        vocab=None,
        tokenizer_file=None,
        split_punctuation=True,
        model_max_length=64,
        **kwargs,
    ):
        # train_new_from_iterator hands these over: a tokenizer, and other names for the special tokens.
        tokenizer_object = kwargs.pop("tokenizer_object", None)
        special = [
            str(kwargs.setdefault(f"{role}_token", token) or token)
            for role, token in zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL_TOKENS, strict=True)
        ]
        if tokenizer_object is not None:
            tokenizer = Tokenizer.from_str(tokenizer_object.to_str())  # a copy: the caller's stays as it is
        elif tokenizer_file is not None:
            if not os.path.isfile(tokenizer_file):
                raise FileNotFoundError(f"tokenizer_file {tokenizer_file} does not exist or is not a file")
            tokenizer = Tokenizer.from_file(str(tokenizer_file))
        else:
            if kwargs.get("vocab_file") is not None:
                raise ValueError("vocab_file is not read: give tokenizer_file, or vocab as a dict")
            if vocab is None and kwargs.get("name_or_path"):  # from_pretrained found no vocabulary
                raise ValueError(f"{kwargs['name_or_path']} holds no tokenizer.json")
            if vocab is None:
                vocab = {token: index for index, token in enumerate(special)}
            if not isinstance(vocab, dict):
                raise ValueError(f"vocab must be a dict from word to id, got {type(vocab).__name__} {vocab!r}")
            tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=special[1]))
        ids = [tokenizer.token_to_id(token) for token in special]
        if ids != [0, 1, 2, 3, 4]:
            raise ValueError(f"the vocabulary must give {', '.join(special)} the ids 0 to 4, it gives {ids}")
        if sorted(tokenizer.get_vocab().values()) != list(range(tokenizer.get_vocab_size())):
            raise ValueError(f"the ids of the vocabulary must be 0 to {tokenizer.get_vocab_size() - 1}, each once")

        # The same few lines serve a new tokenizer and a loaded one, so the two can't drift apart.
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
        splitters = [pre_tokenizers.WhitespaceSplit()]
        if split_punctuation:
            splitters.append(pre_tokenizers.Punctuation(behavior="isolated"))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splitters)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{special[2]} $A {special[3]}",
            pair=f"{special[2]} $A {special[3]} $B:1 {special[3]}:1",
            special_tokens=[(special[2], 2), (special[3], 3)],
        )
        # Joins words with a space and, where punctuation was split off, sets . , ! ? and ' back on their words.
        # No word can begin with a space, so the prefix of word pieces never applies.
        tokenizer.decoder = decoders.WordPiece(prefix=" ", cleanup=split_punctuation)
        tokenizer.no_truncation()
        tokenizer.no_padding()

        # Newer versions of the library hand over parts of the file that this class sets itself,
        # and write facts about one loading into tokenizer_config.json.
        for name in (
            "post_processor",
            "tokenizer_padding",
            "tokenizer_truncation",
            "_json_truncation",
            "_json_padding",
        ):
            kwargs.pop(name, None)
        # Newer versions save the special tokens that were added under a name that to older ones means a dict.
        if isinstance(kwargs.get("extra_special_tokens"), (list, tuple)):
            kwargs["additional_special_tokens"] = kwargs.pop("extra_special_tokens")
        kwargs.setdefault("clean_up_tokenization_spaces", False)  # the decoder does it
        super().__init__(
            tokenizer_object=tokenizer,
            split_punctuation=split_punctuation,
            model_max_length=model_max_length,
            **kwargs,
        )
        self.split_punctuation = split_punctuation
        for name in ("backend", "is_local", "local_files_only"):
            self.init_kwargs.pop(name, None)

    def __call__(self, text=None, *args, **kwargs):
        """Encodes as the library does, but says what is wrong with an empty batch, or with what is no text."""
        if isinstance(text, (list, tuple)) and not text:
            raise ValueError("the batch of texts is empty")
        try:
            return super().__call__(text, *args, **kwargs)
        except TypeError as error:
            if "Input" not in str(error):  # TextEncodeInput, TextInputSequence, PreTokenizedInputSequence
                raise
            raise ValueError("a text is no string, or has a lone surrogate (half of a character) in it") from error

    def save_pretrained(self, *args, **kwargs):
        """Saves as the library does, but not how the last call happened to pad and cut."""
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        return super().save_pretrained(*args, **kwargs)
