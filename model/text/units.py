"""Signs of units that stand behind a number, and the same in most languages."""

UNITS = (
    "kg|g|mg|µg|t|km|m|cm|mm|µm|nm|l|ml|cl|km/h|mph|m/s|ms|ns|h|min|s|kWh|Wh|kW|MW|W|V|A|Hz|kHz|MHz|GHz|"
    "kB|KB|MB|GB|TB|PB|KiB|MiB|GiB|Kbit/s|Mbit/s|Gbit/s|px|pt|em|rem|dpi|fps|EUR|USD|GBP|CHF|JPY|CNY|RUB|PLN|"
    "Mio|Mrd|hPa|bar|kJ|J|kcal|dB|ha|m²|m³|km²|cm²|am|pm|AM|PM|a\\.m\\.|p\\.m\\."
)
