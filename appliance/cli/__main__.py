"""`python -m appliance.cli`."""

from appliance.cli import main

if __name__ == "__main__":
    main()
