"""Words in, ids out: a word-level tokenizer on the Rust `tokenizers` library."""

import copy
import os
import warnings

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4, in every vocabulary
OPTIONS = ("split_punctuation", "do_lower_case")
# Settings of the library's that not every version of it keeps as attributes.
LIBRARY = (
    "additional_special_tokens", "auto_map", "code_revision", "extra_special_tokens", "fix_mistral_regex", "merges",
    "processor_class", "tokenizer_class", "use_fast",
)  # fmt: skip


def make_normalizer(lower):
    return normalizers.Sequence([normalizers.NFC(), *([normalizers.Lowercase()] if lower else [])])


def make_pre_tokenizer(split):
    punctuation = [pre_tokenizers.Punctuation(behavior="isolated")] if split else []
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), *punctuation])


def make_decoder(split):
    """Joins words with a space and, where punctuation was split off, sets . , ! ? and ' back on their words."""
    return decoders.WordPiece(prefix=" ", cleanup=split)  # no word begins with a space, so the prefix never applies


def choice(part, make):
    """Returns the choice, True or False, that `make` makes this part of a tokenizer from; None for any other part."""
    return next((value for value in (True, False) if part and part.__getstate__() == make(value).__getstate__()), None)


def make_model(vocab, unk_token):
    """Makes a model that knows whole words, of the type that BERT's has.

    From the type, token-classification pipelines know that a word can end where no space follows. But no word is cut:
    what continues one would have to begin with white space that no word in the vocabulary begins with.
    """
    prefix = " "
    while any(word.startswith(prefix) for word in vocab):
        prefix += " "
    longest = max(map(len, vocab), default=0)  # what is longer is unknown, and not even looked up
    return models.WordPiece(
        vocab, unk_token=unk_token, continuing_subword_prefix=prefix, max_input_chars_per_word=longest
    )


def has_whole_words(model):
    if isinstance(model, models.WordPiece):
        return model.continuing_subword_prefix.isspace()
    return isinstance(model, models.WordLevel)  # as earlier versions of this file saved it


def check_options(given):
    for name in ("strip_accents", "tokenize_chinese_chars"):
        if given.get(name):
            raise ValueError(
                f"ToyBertTokenizer has no {name}: set a backend_tokenizer.normalizer that does it, and save that"
            )


class ToyBertTokenizer(PreTrainedTokenizerFast):
    """Splits text into lower-case words and frames them as BERT does: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    A word that the vocabulary lacks is one `[UNK]`. Text is brought to Unicode's NFC form, lower-cased unless
    `do_lower_case=False`, and split on white space. With `split_punctuation`, every punctuation mark is a word of its
    own: "The cat sat." has four. Without it, only white space divides, so that symbols such as `dx:I10` stay whole.
    Offsets are those of the given text; an accent that was typed apart from the last letter of a word is outside
    the word's offsets.

    `ToyBertTokenizer(vocab=...)` takes a dict from word to id whose first five are the special tokens, or nothing but
    them when `vocab` is left out: `ToyBertTokenizer().train_new_from_iterator(texts, vocab_size=500)` learns the rest.
    Both options are True for a new tokenizer; a saved one keeps its own. What you set in `backend_tokenizer` is saved
    too: with a normalizer of yours `do_lower_case` is None, with a pre-tokenizer of yours `split_punctuation`.

    Raises:
        ValueError: the vocabulary does not give [PAD], [UNK], [CLS], [SEP], [MASK] the ids 0 to 4.
        FileNotFoundError: `tokenizer_file` does not exist.
        TypeError: a setting is neither this class's nor the library's.
    """

    vocab_files_names = {"tokenizer_file": "tokenizer.json"}
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    padding_side = "right"
    truncation_side = "right"

    def __init__(
        self,
        vocab=None,
        tokenizer_file=None,
        split_punctuation=None,
        do_lower_case=None,
        model_max_length=64,
        **kwargs,
    ):
        # With a name, it is the library that hands over what a file or another tokenizer had.
        given = {} if kwargs.get("name_or_path") else dict(kwargs)
        check_options(given)
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
            tokenizer = Tokenizer(make_model(vocab, special[1]))
            tokenizer.normalizer, tokenizer.pre_tokenizer = make_normalizer(True), make_pre_tokenizer(True)
            tokenizer.decoder = make_decoder(True)
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{special[2]} $A {special[3]}",
                pair=f"{special[2]} $A {special[3]} $B:1 {special[3]}:1",
                special_tokens=[(special[2], 2), (special[3], 3)],
            )
        ids = [tokenizer.token_to_id(token) for token in special]
        if ids != [0, 1, 2, 3, 4]:
            raise ValueError(f"the vocabulary must give {', '.join(special)} the ids 0 to 4, it gives {ids}")
        if sorted(tokenizer.get_vocab().values()) != list(range(tokenizer.get_vocab_size())):
            raise ValueError(f"the ids of the vocabulary must be 0 to {tokenizer.get_vocab_size() - 1}, each once")

        if has_whole_words(tokenizer.model):
            tokenizer.model = make_model(tokenizer.get_vocab(with_added_tokens=False), tokenizer.model.unk_token)
        tokenizer.no_truncation()
        tokenizer.no_padding()

        # Newer versions save the special tokens that were added under a name that to older ones means a dict.
        if isinstance(kwargs.get("extra_special_tokens"), (list, tuple)):
            kwargs["additional_special_tokens"] = kwargs.pop("extra_special_tokens")
        kwargs.setdefault("clean_up_tokenization_spaces", False)  # the decoder does it
        super().__init__(
            tokenizer_object=tokenizer,
            model_max_length=model_max_length,
            **dict.fromkeys(OPTIONS),  # named here, so that the library saves what they are then
            **kwargs,
        )
        for name, value in zip(OPTIONS, (split_punctuation, do_lower_case), strict=True):
            saved_with_another = kwargs.get("name_or_path") and getattr(self, name) is None
            if value is not None and not saved_with_another:
                setattr(self, name, value)
        # Newer versions write facts about one loading into tokenizer_config.json.
        for name in ("backend", "is_local", "local_files_only", "strip_accents", "tokenize_chinese_chars"):
            self.init_kwargs.pop(name, None)
        if unknown := self._unknown(given):
            raise TypeError(f"ToyBertTokenizer has no setting {', '.join(unknown)}")

    def _unknown(self, given):
        """Lists the settings that are accepted but do nothing."""
        return [name for name in given if name in self.init_kwargs and name not in LIBRARY and not hasattr(self, name)]

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """Loads as the library does; options given here override those that were saved."""
        check_options(kwargs)
        tokenizer = super().from_pretrained(*args, **kwargs)
        for name in OPTIONS:
            if kwargs.get(name) is not None:
                setattr(tokenizer, name, kwargs[name])
        # No error: other libraries, and pipelines above all, hand a tokenizer what is meant for its model.
        unknown = tokenizer._unknown(kwargs)
        for name in unknown:
            del tokenizer.init_kwargs[name]
        if unknown and "_from_pipeline" not in kwargs:
            warnings.warn(f"ToyBertTokenizer has no setting {', '.join(unknown)}: it does nothing", stacklevel=2)
        return tokenizer

    @classmethod
    def convert_to_native_format(cls, **kwargs):
        """Hands `__init__` the tokenizer.json itself; newer versions would hand over only parts of it."""
        return kwargs

    @property
    def split_punctuation(self):
        return choice(self.backend_tokenizer.pre_tokenizer, make_pre_tokenizer)

    @split_punctuation.setter
    def split_punctuation(self, value):
        self.backend_tokenizer.pre_tokenizer = make_pre_tokenizer(value)
        if choice(self.backend_tokenizer.decoder, make_decoder) is not None:
            self.backend_tokenizer.decoder = make_decoder(value)

    @property
    def do_lower_case(self):
        return choice(self.backend_tokenizer.normalizer, make_normalizer)

    @do_lower_case.setter
    def do_lower_case(self, value):
        self.backend_tokenizer.normalizer = make_normalizer(value)

    def train_new_from_iterator(self, *args, **kwargs):
        """Learns as the library does, but whole words; for this type of model, the library would learn pieces."""
        learner = copy.deepcopy(self)
        if has_whole_words(learner.backend_tokenizer.model):
            learner.backend_tokenizer.model = models.WordLevel({}, unk_token=str(self.unk_token))
        return super(ToyBertTokenizer, learner).train_new_from_iterator(*args, **kwargs)

    def __call__(self, text=None, *args, **kwargs):
        """Encodes as the library does, but says what is wrong with an empty batch or a value that is no text."""
        if isinstance(text, (list, tuple)) and not text and not kwargs.get("is_split_into_words"):
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
