"""`appliance doctor`: everything the appliance needs, looked at one by one. A check finds and says what to type; it
repairs nothing, and writes nothing to a forge. One area in each file; `inside` and `outside` put them together.
"""
