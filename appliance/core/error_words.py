"""The errors of the C library that end a line of bwrap: of glibc, of musl, and glibc's in other languages.

bwrap itself never asks for a language, so that it says these in English; what people and their tools pass on does not.
"""

import errno
import os
import re

# musl's words where glibc has others: the bwrap that Codex brings along and Alpine's are linked with it.
_MUSL = (
    "Address not available", "Connection aborted", "Filename too long", "I/O error", "Network unreachable",
    "No child process", "No error information", "No file descriptors available", "Not a tty", "Not supported",
    "Operation in progress", "Operation timed out", "Out of memory", "Quota exceeded", "Resource busy",
    "Symbolic link loop", "Value too large for data type",
)  # fmt: skip

ERRORS = (*dict.fromkeys((*(os.strerror(code) for code in errno.errorcode), *_MUSL, "Success")),)

# Those that tell causes apart. German, French, Spanish, Italian, Portuguese, Dutch, Polish, Chinese, Japanese.
_TRANSLATED = {
    "Operation not permitted": (
        "Die Operation ist nicht erlaubt", "Opération non permise", "Operación no permitida",
        "Operazione non permessa", "Operação não permitida", "Actie is niet toegestaan", "Operacja niedozwolona",
        "不允许的操作", "許可されていない操作です",
    ),
    "Permission denied": (
        "Keine Berechtigung", "Permission non accordée", "Permiso denegado", "Permesso negato", "Permissão negada",
        "Permissão recusada", "Toegang geweigerd", "Brak dostępu", "权限不够", "許可がありません",
    ),
    "Read-only file system": (
        "Das Dateisystem ist nur lesbar", "Système de fichiers accessible en lecture seulement",
        "Sistema de ficheros de sólo lectura", "File system in sola lettura",
        "Sistema de arquivos somente para leitura", "Bestandssysteem is alleen-lezen",
        "System plików wyłącznie do odczytu", "只读文件系统", "読み込み専用ファイルシステムです",
    ),
    "No such file or directory": (
        "Datei oder Verzeichnis nicht gefunden", "Aucun fichier ou dossier de ce type",
        "No existe el fichero o el directorio", "File o directory non esistente", "Arquivo ou diretório inexistente",
        "Bestand of map bestaat niet", "Nie ma takiego pliku ani katalogu", "没有那个文件或目录",
        "そのようなファイルやディレクトリはありません",
    ),
    "Invalid argument": (
        "Das Argument ist ungültig", "Argument invalide", "Argumento inválido", "Argomento non valido",
        "Ongeldig argument", "Zły argument", "无效的参数", "無効な引数です",
    ),
    "No space left on device": (
        "Auf dem Gerät ist kein Speicherplatz mehr verfügbar", "Aucun espace disponible sur le périphérique",
        "No queda espacio en el dispositivo", "Spazio esaurito sul device", "Não há espaço disponível no dispositivo",
        "Geen ruimte meer over op apparaat", "Brak miejsca na urządzeniu", "设备上没有空间",
        "デバイスに空き領域がありません",
    ),
    "Resource temporarily unavailable": (
        "Die Ressource ist zur Zeit nicht verfügbar", "Ressource temporairement non disponible",
        "Recurso no disponible temporalmente", "Risorsa temporaneamente non disponibile",
        "Recurso temporariamente indisponível", "Zasoby chwilowo niedostępne", "资源暂时不可用",
        "リソースが一時的に利用できません",
    ),
    "Function not implemented": (
        "Die angeforderte Funktion ist nicht implementiert", "Fonction non implantée", "Función no implementada",
        "Funzione non implementata", "Função não implementada", "Nie zaimplementowana funkcja", "函数未实现",
        "関数は実装されていません",
    ),
}  # fmt: skip
_ENGLISH = {words: english for english, others in _TRANSLATED.items() for words in others}
_ENDS = re.compile(rf"(?<=: )({'|'.join(map(re.escape, _ENGLISH))})$")


def in_english(line: str) -> str:
    """`line`, its error at the end in English."""
    return _ENDS.sub(lambda found: _ENGLISH[found[1]], line)
