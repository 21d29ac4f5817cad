"""Holds values against an interface text of varlink: what is declared must be there, as declared,
and nothing else. Reads just what interface texts of ours use."""

import re

TOKEN = re.compile(r"[A-Za-z][\w.]*|->|\[string\]|\[\]|[?:,()]")
PLAIN = {"bool": bool, "int": int, "string": str}


class Interface:
    def __init__(self, text):
        self._tokens = iter(TOKEN.findall(re.sub(r"#.*", "", text)))
        self._next()
        self._expect("interface")
        self.name = self._take()
        self.types, self.methods, self.errors = {}, {}, {}
        while self._token:
            kind, name = self._take(), self._take()
            if kind == "method":
                arguments = self._type()
                self._expect("->")
                self.methods[name] = arguments, self._type()
            else:
                {"type": self.types, "error": self.errors}[kind][name] = self._type()

    # ---- reading: a type is a name, {field: type}, [enum value, ...] or (constructor, type)

    def _next(self):
        self._token = next(self._tokens, None)

    def _take(self):
        token = self._token
        self._next()
        return token

    def _expect(self, token):
        assert self._token == token, f"{self._token} where {token} should be"
        self._next()

    def _type(self):
        if self._token in ("?", "[]", "[string]"):
            return self._take(), self._type()
        if self._token != "(":
            return self._take()
        self._next()
        fields, values = {}, []
        while self._token != ")":
            name = self._take()
            if self._token == ":":
                self._next()
                fields[name] = self._type()
            else:
                values.append(name)
            if self._token == ",":
                self._next()
        self._next()
        return values or fields

    # ---- checking

    def check(self, value, declared, where):
        if isinstance(declared, tuple):
            self._check_constructed(value, *declared, where)
        elif isinstance(declared, list):
            assert value in declared, f"{where} is {value!r}"
        elif isinstance(declared, dict):
            assert isinstance(value, dict), f"{where} is {value!r}"
            undeclared = value.keys() - declared.keys()
            assert not undeclared, f"{where} has {undeclared}, which are not declared"
            for name, kind in declared.items():
                self.check(value.get(name), kind, f"{where}.{name}")
        elif declared in PLAIN:
            assert type(value) is PLAIN[declared], f"{where} is {value!r}"
        else:
            self.check(value, self.types[declared], where)

    def _check_constructed(self, value, constructor, inner, where):
        if constructor == "?":
            if value is not None:
                self.check(value, inner, where)
        elif constructor == "[]":
            assert isinstance(value, list), f"{where} is {value!r}"
            for i, element in enumerate(value):
                self.check(element, inner, f"{where}[{i}]")
        else:
            assert isinstance(value, dict), f"{where} is {value!r}"
            for key, element in value.items():
                self.check(element, inner, f"{where}[{key}]")

    def check_answer(self, method, answer):
        self.check(answer, self.methods[method][1], f"the answer of {method}")

    def check_error(self, error, parameters):
        self.check(parameters, self.errors[error], error)
